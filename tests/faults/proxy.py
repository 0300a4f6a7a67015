"""A loopback TCP proxy that can be cut for a while or amid an answer, and that tells when a certain request passes it."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

HOST = "127.0.0.1"
CHUNK = 65_536
# closed so, a connection is reset instead of ended
_RESETS = struct.pack("ii", 1, 0)
_LOOK_SECONDS = 0.05


@dataclass
class _Watch:
    """`act` is called once, after a request with `text` went to the server and before its answer is passed on."""

    text: bytes
    act: Callable[[], None]
    seen_on: socket.socket | None = None


@dataclass
class _Limit:
    """What happens once the server has sent `left` further bytes, and whether it has. `always`: to every connection."""

    left: int
    act: Callable[[], None] | None
    always: bool = False
    struck: int = 0


@dataclass
class Proxy:
    """Passes connections on to `target` (host, port) from a port of its own.

    While it is cut nothing passes in either direction and no connection is closed: as when packets are lost. What was
    sent meanwhile arrives afterwards, as a network would repeat it.
    """

    target: tuple[str, int]
    _listener: socket.socket = field(init=False)
    _open: threading.Event = field(default_factory=threading.Event)
    _watches: list[_Watch] = field(default_factory=list)
    _refusing: bool = False
    _passing: set[socket.socket] = field(default_factory=set)
    _limit: _Limit | None = None
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._open.set()
        self._listener = socket.create_server((HOST, 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._open.set()

    @property
    def port(self) -> int:
        """The port to connect to."""
        return int(self._listener.getsockname()[1])

    def cut(self, seconds: float) -> None:
        """Let nothing through for so long; returns at once."""
        self._open.clear()
        timer = threading.Timer(seconds, self._open.set)
        timer.daemon = True
        timer.start()

    def refuse(self) -> None:
        """End every connection and take no new one, until `accept`."""
        self._refusing = True
        self._shut(*tuple(self._passing))

    def accept(self) -> None:
        """Take connections again."""
        self._refusing = False

    @property
    def whole(self) -> bool:
        """Whether it is not cut."""
        return self._open.is_set() and not self._refusing

    def after(self, count: int, act: Callable[[], None] | None = None) -> None:
        """Once the server has sent so many further bytes, over all connections, call `act`; without one, reset the connection."""
        self._limit = _Limit(count, act)

    def each_after(self, count: int) -> None:
        """Reset every connection once the server has sent so many bytes over it."""
        self._limit = _Limit(count, None, always=True)

    def whole_again(self) -> int:
        """Let everything pass; how often the limit was reached."""
        limit, self._limit = self._limit, None
        return 0 if limit is None else limit.struck

    def watch(self, text: bytes, act: Callable[[], None]) -> None:
        """Call `act` when a request that contains `text` has reached the server, before its answer is passed on."""
        self._watches.append(_Watch(text, act))

    def forget(self) -> None:
        """Drop all watches."""
        self._watches.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            with suppress(OSError):
                server = socket.create_connection(self.target, timeout=10)
                server.settimeout(None)
                for source, sink, inward in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pump, args=(source, sink, inward), daemon=True).start()
                continue
            client.close()

    def _pump(self, source: socket.socket, sink: socket.socket, inward: bool) -> None:
        self._passing.add(source)
        sent = 0
        try:
            while data := self._read(source):
                self._note(data, sink if inward else source, inward)
                self._open.wait()
                passed = data if inward else data[: self._let_through(len(data), sent)]
                sink.sendall(passed)
                sent += len(data)
                if len(passed) < len(data):
                    self._reset(sink, source)
        except (OSError, ValueError):  # ValueError: select on a socket that the other thread has closed
            pass
        self._passing.discard(source)
        self._shut(source, sink)

    @staticmethod
    def _read(source: socket.socket) -> bytes:
        """Wait with looks: a socket in which a thread waits is not reset when it is closed."""
        while not select.select([source], [], [], _LOOK_SECONDS)[0]:
            pass
        return source.recv(CHUNK)

    def _let_through(self, count: int, sent: int) -> int:
        """How many of `count` bytes from the server pass, after `sent` of this connection; calls what is due."""
        with self._counting:
            limit = self._limit
            if limit is None:
                return count
            left = limit.left - sent if limit.always else limit.left
            if left > count or (limit.struck and not limit.always):
                limit.left -= 0 if limit.always else count
                return count
            limit.struck += 1
        if limit.act is not None:
            limit.act()
            return count
        return max(0, min(left, count - 1))

    @staticmethod
    def _reset(client: socket.socket, server: socket.socket) -> None:
        for end in (client, server):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
            end.close()

    @staticmethod
    def _shut(*ends: socket.socket) -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _note(self, data: bytes, server: socket.socket, inward: bool) -> None:
        for watch in list(self._watches):
            if inward and watch.text in data:
                watch.seen_on = server
            elif not inward and watch.seen_on is server:
                self._watches.remove(watch)
                watch.act()
