"""A network path that can go dark: connections stay open, and nothing comes through any more."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_CHUNK = 65536


class Path:
    """Forwards a local port to a server until `dark` is set. Its threads end with `close`."""

    def __init__(self, host: str, port: int) -> None:
        self.dark = threading.Event()
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, name="path", daemon=True).start()

    @property
    def port(self) -> int:
        """The local port that stands for the server's."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """End it with all of its connections."""
        for one in self._open:
            with suppress(OSError):
                one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                if self.dark.is_set():
                    continue  # a connection that nobody ever answers
                far = socket.create_connection(self._target)
                self._open.append(far)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=ends, name="path-bytes", daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if self.dark.is_set():
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
