"""Answers of other systems' HTTP interfaces, read with limits, and what is not an answer of theirs as one clear error.

A wrong address leads to a proxy, a login page, another service or nobody. Nothing of that may take long, fill the memory or
end in a KeyError: an answer is read within one deadline for all of it, and has a largest size and depth.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpcore
import httpx

from airflow_cdc.core.errors import MALFORMED, CdcError, kind_and_text

if TYPE_CHECKING:
    from ssl import SSLContext

T = TypeVar("T")

MOST_BYTES: Final = 10 << 20
DEEPEST: Final = 100
TODO: Final = (
    "Something else may answer there, such as a proxy or another service: check the address. If it is the right one, its"
    " version answers in a form that this version does not know."
)
# what httpx has undone already, or what counts the bytes before that
_UNDONE: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_now: Final = threading.local()


class TooMuchError(httpx.HTTPError):
    """The answer is larger than any that we ask for."""


def ask(client: httpx.Client, method: str, path: str, *, within: float, **request: Any) -> httpx.Response:
    """One request, whose whole answer must arrive `within` seconds. Raises httpx.HTTPError, also TooMuchError.

    A client's own timeout is for each piece: a server that sends one byte each second would hold it for ever.
    """
    _limit(client)
    _now.deadline = time.monotonic() + within
    try:
        with client.stream(method, path, **request) as answer:
            content = _read(answer)
    finally:
        _now.deadline = None
    headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in _UNDONE]
    return httpx.Response(answer.status_code, headers=headers, content=content, request=answer.request)


def parsed(answer: httpx.Response) -> Any:
    """The JSON of an answer. Raises ValueError for what is none, or is nested deeper than any that we ask for."""
    try:
        value = json.loads(answer.content)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_depth(value)
    return value


def explained(error: type[CdcError], system: str) -> Callable[[type[T]], type[T]]:
    """Decorate a client: whatever its methods cannot read in an answer of `system` becomes an `error` that says what and where."""

    def decorate(client: type[T]) -> type[T]:
        for name, method in list(vars(client).items()):
            if isinstance(method, FunctionType) and not name.startswith("__"):
                setattr(client, name, _explaining(method, error, system))
        return client

    return decorate


def _explaining(method: Callable[..., object], error: type[CdcError], system: str) -> Callable[..., object]:
    @functools.wraps(method)
    def guarded(self: object, *args: object, **kwargs: object) -> object:
        try:
            return method(self, *args, **kwargs)
        except CdcError:
            raise
        except MALFORMED as odd:
            what = f"the answer is not one of {system}'s ({kind_and_text(odd)})"
            raise error(what, where=str(getattr(self, "where", "")), todo=TODO) from odd

    return guarded


def _read(answer: httpx.Response) -> bytes:
    parts, size = [], 0
    for part in answer.iter_bytes():
        size += len(part)
        if size > MOST_BYTES:
            raise TooMuchError(f"the answer has more than {MOST_BYTES >> 20} MB")
        parts.append(part)
    return b"".join(parts)


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one) if isinstance(inner, dict | list)]
        if not level:
            return
    raise ValueError("nested too deeply")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _limit(client: httpx.Client) -> None:
    """Let every read of the client's connections end at this thread's deadline, those of headers too."""
    # httpx offers no deadline for a whole request; a test sends headers byte by byte
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001
        pool = getattr(transport, "_pool", None)
        if pool is not None and not isinstance(pool._network_backend, _Network):  # noqa: SLF001
            pool._network_backend = _Network(pool._network_backend)  # noqa: SLF001


def _left(timeout: float | None) -> float | None:
    """The timeout, or what is left of this thread's deadline. Raises httpcore.ReadTimeout once nothing is."""
    deadline = getattr(_now, "deadline", None)
    if deadline is None:
        return timeout
    left = float(deadline) - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline for the whole answer has passed")
    return left if timeout is None else min(timeout, left)


class _Network(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(  # type: ignore[override]
        self, host: str, port: int, timeout: float | None = None, **more: Any
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.connect_tcp(host, port, _left(timeout), **more))

    def connect_unix_socket(  # type: ignore[override]
        self, path: str, timeout: float | None = None, **more: Any
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.connect_unix_socket(path, _left(timeout), **more))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout)))

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)
