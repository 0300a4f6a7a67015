"""A proxy before an object store that answers some requests itself, as a store does that is overloaded or refuses."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self, cast
from urllib.parse import urlsplit

HOST = "127.0.0.1"
CODES = {503: "SlowDown", 403: "AccessDenied"}
_OF_ONE_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass
class Refusal:
    """Answer `status` to requests of `method` ("": any): all, or `times` of them after the first `skip`.

    `done`: the store does what was asked, and only its answer is another one.
    """

    status: int
    method: str = ""
    skip: int = 0
    times: int | None = None
    done: bool = False
    struck: int = 0

    def takes(self, method: str) -> bool:
        """Whether this request is refused; counts it."""
        if self.method not in {"", method}:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None and self.struck >= self.times:
            return False
        self.struck += 1
        return True


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client. Its server is a _Server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent one after the other: 47 ms a request without, 4 with

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def __getattr__(self, name: str) -> Callable[[], None]:
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self._answer

    def _answer(self) -> None:
        body = self._body()
        proxy = cast("_Server", self.server).proxy
        refusal = proxy.refused(self.command)
        if refusal is None or refusal.done:
            answer = forward(proxy.address, self, body)
        if refusal is not None:
            answer = refused(refusal.status)
        self._send(answer)

    def _body(self) -> bytes:
        """Of a known length, or in chunks, as PyArrow sends its files."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status, answer.reason)
        for name, value in answer.headers.items():
            if name not in _OF_ONE_HOP:
                self.send_header(name, value)
        head = self.command == "HEAD"
        self.send_header("content-length", answer.headers.get("content-length", "0") if head else str(len(answer.body)))
        self.end_headers()
        if not head:
            self.wfile.write(answer.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: StoreProxy) -> None:
        self.proxy = proxy
        super().__init__((HOST, 0), _Handler)


@dataclass
class StoreProxy:
    """Passes requests on to the store at `url`, but for what it is told to refuse."""

    url: str
    refusal: Refusal | None = None
    _server: _Server = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def own_url(self) -> str:
        """Where clients find it."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    @property
    def address(self) -> str:
        """Host and port of the store."""
        return urlsplit(self.url).netloc

    def refused(self, method: str) -> Refusal | None:
        """What the next request of this method is refused with; None: it passes."""
        with self._lock:
            refusal = self.refusal
            return refusal if refusal is not None and refusal.takes(method) else None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; the names of headers in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


def refused(status: int) -> Answer:
    """As a store says it."""
    code = CODES[status]
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return Answer(status, code, {"content-type": "application/xml"}, text.encode())


def forward(address: str, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
    """The store's answer. The request keeps its headers: the signature is over them."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            if name.lower() not in {"connection", "expect"}:
                connection.putheader(name, value)
        chunked = request.headers.get("Transfer-Encoding", "").lower() == "chunked"
        connection.endheaders([body] if chunked else body, encode_chunked=chunked)
        got = connection.getresponse()
        headers = {name.lower(): value for name, value in got.getheaders()}
        return Answer(got.status, got.reason, headers, got.read())
    finally:
        connection.close()
