"""A small real HTTP server whose answers a test scripts: statuses, bodies, cut-off answers."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One scripted answer; `cut` promises more bytes than it sends, `drop` closes without any answer."""

    status: int = 200
    body: Any = None
    content_type: str = "application/json"
    cut: bool = False
    drop: bool = False
    delay: threading.Event | None = None


@dataclass
class Scripted:
    """The server: `answers` are given in order, the last one again and again; `requests` is what came."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, str, Any, dict[str, str]]] = field(default_factory=list)
    respond: Callable[[str, str, Any], Answer] | None = None

    def next_answer(self, method: str, path: str, body: Any) -> Answer:
        if self.respond is not None:
            return self.respond(method, path, body)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is no fault; a traceback of it fell into the output that another test looked at."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving() -> Iterator[Scripted]:
    """Start the server on a free loopback port; ends with the block."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: two wait 40 ms for each other's receipt

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def _handle(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length)
            form = "urlencoded" in self.headers.get("content-type", "")
            body = raw.decode() if form else json.loads(raw) if raw else None
            script.requests.append((self.command, self.path, body, dict(self.headers)))
            answer = script.next_answer(self.command, self.path, body)
            if answer.delay is not None:
                answer.delay.wait(10)
            self._send(answer)

        def _send(self, answer: Answer) -> None:
            if answer.drop:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            data = b"" if answer.body is None else answer.body
            data = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            self.send_header("content-length", str(len(data) + (100 if answer.cut else 0)))
            self.end_headers()
            self.wfile.write(data)
            if answer.cut:
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 - names that http.server looks up

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
