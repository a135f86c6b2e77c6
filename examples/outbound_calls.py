"""
`wait` as a gate in front of somebody else's API: calls leave at its pace, spaced by a `leaky_bucket`.
"""

from tidegate import Limiter
from tidegate.testing import ManualClock

# A manual clock does not sleep: `wait` moves it. Leave it out and the calls leave in real time.
clock = ManualClock()
gate = Limiter("5/second queue 1s", clock=clock)
begin = clock.time()


def call(number: int) -> str:
    gate.wait("api.example.com")
    return f"call {number} leaves at {clock.time() - begin:.1f} s"


for number in range(1, 7):
    print(call(number))

# With a timeout, a caller who would have to wait for longer is told at once and takes no place in the queue.
if not gate.wait("api.example.com", timeout=0.1):
    print("call 7 cannot leave within 0.1 s")
assert gate.wait("api.example.com", timeout=0.2)
