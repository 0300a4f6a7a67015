"""One cluster through opensearch-py, with its errors as this package's."""

from __future__ import annotations

import os
import re
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from opensearchpy import OpenSearch, Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as Unreachable
from opensearchpy.exceptions import ImproperlyConfigured, OpenSearchException, SSLError, TransportError
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import InsecureRequestWarning

from airflow_cdc.core.errors import CdcError, ConfigError, SinkError, UnknownStateError

if TYPE_CHECKING:
    from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint

CONFLICT: Final = 409
NOT_FOUND: Final = 404
_TODOS: Final = {
    401: "Check login and password of the OpenSearch connection.",
    403: "Give the user of the OpenSearch connection the permissions that the page Privileges lists.",
}
_TLS_TODO: Final = (
    "Give the authority's file as ca_file of the OpenSearch connection, whose host must be a name in the certificate;"
    " check schema, port, cert_file and key_file."
)
_BUSY: Final = 429
_LONGEST_S: Final = 3600.0
_SERVER_FAULT: Final = 500


class _Http(HTTPConnection):
    """A connection whose timeout is for a whole answer: a server that sends a byte each second would hold a call for ever."""

    def getresponse(self) -> Any:
        """The answer, with its body. Raises TimeoutError."""
        late, own = threading.Event(), self.sock

        def end() -> None:
            late.set()
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(float(self.timeout or 0) or _LONGEST_S, end)
        timer.daemon = True
        timer.start()
        try:
            answer = super().getresponse()
        except Exception:
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
        if late.is_set():  # half an answer without a length looks like a whole one
            raise TimeoutError
        return answer


class _Https(_Http, HTTPSConnection):
    """One over TLS."""


class _Deadlined(Urllib3HttpConnection):  # type: ignore[misc]  # it has no types
    def _create_urllib3_pool(self) -> None:
        super()._create_urllib3_pool()
        self.pool.ConnectionCls = _Https if self.pool.scheme == "https" else _Http


class Session:
    """The cluster at an endpoint. Nothing is opened before the first call; a forked process opens its own connections."""

    def __init__(self, endpoint: OpenSearchEndpoint) -> None:
        self.endpoint = endpoint
        self._clients: dict[int, OpenSearch] = {}

    def __repr__(self) -> str:
        return f"Session({self.endpoint.url!r})"

    @property
    def client(self) -> OpenSearch:
        """The client of this process."""
        pid = os.getpid()
        if pid not in self._clients:
            self._clients = {pid: connect(self.endpoint)}
        return self._clients[pid]

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        for client in self._clients.values():
            client.close()
        self._clients = {}

    @contextmanager
    def asked(self, what: str, where: str = "") -> Iterator[OpenSearch]:
        """The client, for one call. Raises SinkError if the cluster refuses it, UnknownStateError if it cannot answer."""
        try:
            yield self.client
        except OpenSearchException as error:
            raise explained(error, what, where or self.endpoint.where) from None


def connect(endpoint: OpenSearchEndpoint) -> OpenSearch:
    """A client of the cluster. Raises ConfigError for a file that cannot be read."""
    secure = {"ssl_context": endpoint.tls_context(endpoint.where)} if endpoint.url.startswith("https:") else {}
    if secure and not endpoint.verify:
        _trust_silently(endpoint.url)
    try:
        return OpenSearch(
            [endpoint.url],
            connection_class=_Deadlined,
            timeout=endpoint.timeout,
            max_retries=2,
            retry_on_timeout=False,
            **_login(endpoint),
            **secure,
        )
    except (ImproperlyConfigured, OSError) as error:
        raise ConfigError(str(error), where=endpoint.where, todo="Correct the connection's fields.") from None


def _trust_silently(url: str) -> None:
    """Not warn at every call that this host's certificate is not checked: the connection says so (`verify: false`)."""
    told = re.escape(f"Unverified HTTPS request is being made to host '{urlsplit(url).hostname}'")
    warnings.filterwarnings("ignore", told, InsecureRequestWarning)


def _login(endpoint: OpenSearchEndpoint) -> dict[str, object]:
    if endpoint.user:
        return {"http_auth": (endpoint.user, endpoint.password)}
    return {"headers": {"Authorization": f"Bearer {endpoint.password}"}} if endpoint.password else {}


def explained(error: OpenSearchException, what: str, where: str) -> CdcError:
    """The error as one of this package's: what could not be done, the cluster's reason, and what to do next."""
    status, reason = status_of(error), reason_of(error)
    if isinstance(error, SSLError):
        return SinkError(f"{what}: {_tls_reason(reason)}", where=where, todo=_TLS_TODO)
    if isinstance(error, Unreachable) or status in (None, _BUSY) or status >= _SERVER_FAULT:
        return UnknownStateError(
            f"{what}: {reason}", where=where, todo="Check that the cluster is up and its address is right; try again."
        )
    return SinkError(f"{what}: {reason}", where=where, todo=_TODOS.get(status, ""))


def _tls_reason(reason: str) -> str:
    """OpenSSL's own words, out of those of three libraries around them."""
    match = re.search(r"\[SSL[^\]]*\][^)(]*", reason)
    return f"TLS failed: {match[0].strip() if match else reason[:200]}"


def status_of(error: OpenSearchException) -> int | None:
    """The HTTP status, None if there was no answer."""
    status = error.status_code if isinstance(error, TransportError) else None
    return status if isinstance(status, int) else None


def reason_of(error: OpenSearchException) -> str:
    """The cluster's own words."""
    if not isinstance(error, TransportError):
        return str(error)
    info: object = error.info
    cause = info.get("error") if isinstance(info, dict) else None
    if isinstance(cause, dict):
        return f"{error.status_code} {cause.get('type')}: {cause.get('reason')}"
    return f"{error.status_code} {cause or error.error}"
