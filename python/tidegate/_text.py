"""
How times are shown to people.
"""


def seconds(nanoseconds: int) -> str:
    """
    A wait that is true to read.

    Args:
        nanoseconds: The wait.

    Returns:
        Seconds, rounded up to milliseconds: who waits as long as it says is not too early.
    """
    return f"{-(-nanoseconds // 1_000_000) / 1000} s"
