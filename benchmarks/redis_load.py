"""
As many scripts as the server can take: the check that Tidegate sends, sent again and again by a program that does nothing else.

`redis-benchmark` where it is installed, and beside it a bare loop over a socket, which neither encodes requests nor reads replies: it only
counts their bytes. Both keep as many requests in flight on one connection as there are tasks in the other measurements.
"""

import re
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tests.servers import Single

RATE = re.compile(rb'","?([0-9.]+)')
CHUNK = 1 << 16


@dataclass(frozen=True)
class Command:
    """One command as it went over the wire."""

    words: tuple[bytes, ...]

    @property
    def encoded(self) -> bytes:
        """The bytes."""
        return b"*%d\r\n" % len(self.words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in self.words)


@dataclass(frozen=True)
class Check:
    """The check of one key, as Tidegate sends it."""

    command: Command
    text: bytes
    """The script that it calls by its hash."""

    @classmethod
    def record(cls, server: "Single", quota: str, key: str) -> "Check":
        """Listen to one."""
        from tidegate import Limiter  # noqa: PLC0415 - peers are measured without it too

        server.command("SCRIPT", "FLUSH")
        with Recorder(server.port) as recorder, Limiter(quota, store=f"redis://127.0.0.1:{recorder.port}", budget=5.0) as limiter:
            while limiter.check(key).degraded:
                sleep(0.01)
            limiter.check(key)
            sent = [command.words for command in _parse(bytes(recorder.sent)) if command.words[-3:-2] != (b"tg:{instances}",)]
        command = next(words for words in reversed(sent) if words[0] == b"EVALSHA")
        # What the server did not know yet was sent as text once, right after it was asked for by its hash.
        text = next(words[1] for words in sent if words[0] == b"EVAL" and words[2:] == command[2:])
        return cls(Command(command), text)

    def without_zeros(self, server: "Single") -> Command:
        """
        Return the same for a program that cannot send zero bytes, which the arguments are full of.

        They are put into the script, which costs it less than a microsecond, and saves the server reading them.
        """
        _, _, keys, *rest = self.command.words
        key_words, arguments = rest[: int(keys)], rest[int(keys) :]
        assert not any(b"\0" in word for word in key_words), "choose another key"
        literals = ",".join('"' + "".join(f"\\{byte:03}" for byte in argument) + '"' for argument in arguments)
        loaded = server.command("SCRIPT", "LOAD", f"local ARGV = {{{literals}}}\n".encode() + self.text)
        assert isinstance(loaded, bytes)
        return Command((b"EVALSHA", loaded, keys, *key_words))


class Recorder:
    """A proxy that keeps what clients send."""

    def __init__(self, upstream: int) -> None:
        self.sent = bytearray()
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._upstream))
                for source, target, kept in ((client, server, self.sent), (server, client, bytearray())):
                    threading.Thread(target=_pass_on, args=(source, target, kept), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    with suppress(OSError), source, target:
        while data := source.recv(CHUNK):
            kept += data
            target.sendall(data)


def _parse(sent: bytes) -> list[Command]:
    commands, position = [], 0

    def number() -> int:
        nonlocal position
        end = sent.index(b"\r\n", position)
        value = int(sent[position + 1 : end])
        position = end + 2
        return value

    while position < len(sent):
        words = []
        for _ in range(number()):
            length = number()
            words.append(sent[position : position + length])
            position += length + 2
        commands.append(Command(tuple(words)))
    return commands


class BareLoop:
    """Sends the same batch of commands and waits for its replies, over and over."""

    name = "a bare loop"

    def __init__(self, server: "Single", command: Command, depth: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._batch, self._depth = command.encoded * depth, depth

    def rate(self, count: int) -> float:
        """Return how many were answered in a second."""
        receive = partial(self._socket.recv, CHUNK)
        started = perf_counter()
        for _ in range(count // self._depth):
            self._socket.sendall(self._batch)
            missing = self._depth
            while missing:
                data = receive()
                # Every reply is one array, and nothing else in it has this byte: numbers only.
                missing -= data.count(b"*")
                if b"-" in data and b"\r\n-" in b"\r\n" + data:
                    raise RuntimeError(data[:200].decode(errors="replace"))
        return count / (perf_counter() - started)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class RedisBenchmark:
    """The load generator that comes with Redis."""

    name = "redis-benchmark"

    def __init__(self, server: "Single", command: Command, depth: int) -> None:
        options = ("-h", "127.0.0.1", "-p", str(server.port), "-c", "1", "-P", str(depth), "--csv")
        self._arguments: tuple[str | bytes, ...] = ("redis-benchmark", *options, *command.words)

    @staticmethod
    def is_installed() -> bool:
        """Whether this machine has it."""
        return shutil.which("redis-benchmark") is not None

    def rate(self, count: int) -> float:
        """Return how many were answered in a second, as it says itself."""
        arguments = [self._arguments[0], "-n", str(count), *self._arguments[1:]]
        told = subprocess.run(arguments, capture_output=True, check=True).stdout
        return float(RATE.findall(told.strip().splitlines()[-1])[-7])

    def close(self) -> None:
        """Nothing is left of it."""
