"""A loopback TCP proxy that can be cut for a while, and that tells when a certain request passes it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

HOST = "127.0.0.1"
CHUNK = 65_536


@dataclass
class _Watch:
    """`act` is called once, after a request with `text` went to the server and before its answer is passed on."""

    text: bytes
    act: Callable[[], None]
    seen_on: socket.socket | None = None


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
        try:
            while data := source.recv(CHUNK):
                self._note(data, sink if inward else source, inward)
                self._open.wait()
                sink.sendall(data)
        except OSError:
            pass
        self._passing.discard(source)
        self._shut(source, sink)

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
