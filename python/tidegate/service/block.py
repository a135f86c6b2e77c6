"""
What runs for as long as a block does: `with Service(settings) as service:`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Block(ABC):
    """
    Something that is started and stopped.
    """

    @abstractmethod
    def start(self) -> object:
        """
        Begins.
        """

    @abstractmethod
    def stop(self) -> None:
        """
        Ends, also what was begun only half. Nothing happens if it has ended.
        """

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()
