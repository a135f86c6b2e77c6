"""
`@limit` checks each call of a function first. Key and cost come from the arguments of the call.
"""

from tidegate import errors, limit


@limit("10/minute", key=lambda user, _: user, cost=lambda _, files: len(files))
def upload(user: str, files: list[str]) -> str:
    return f"{user} uploaded {len(files)} files"


print(upload("ann", ["a.txt", "b.txt", "c.txt"]))
print(upload("ben", ["x.txt"] * 10))
try:
    upload("ann", ["x.txt"] * 8)
except errors.Denied as denied:
    print(f"ann: {denied}")

# The limiter of the function is its attribute.
print(f"ann has {upload.limiter.peek('ann').remaining} left")
assert upload.limiter.peek("ann").remaining == 10 - 3
