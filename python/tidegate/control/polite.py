"""
Who goes first when the processor is short: decisions.

The threads of a control plane beside a service take what decisions leave. A thread of Linux has a priority of its own, and those that it
starts have the same; elsewhere all threads of a process have one, and nothing is done.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

NICE: int = 19
"""As `nice` counts: about a seventieth of a core that decisions want for themselves, and all of one that nobody wants. 0 does nothing."""


def give_way() -> None:
    """
    Lets everybody else go before this thread, and before the threads that it starts.
    """
    if sys.platform == "linux" and NICE:
        # It can only fail where somebody has forbidden it, and then it stays as it is.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
