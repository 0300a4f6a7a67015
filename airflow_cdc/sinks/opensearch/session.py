"""One cluster through opensearch-py, with its errors as this package's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from opensearchpy import OpenSearch
from opensearchpy.exceptions import ConnectionError as Unreachable
from opensearchpy.exceptions import ImproperlyConfigured, OpenSearchException, TransportError

from airflow_cdc.core.errors import CdcError, ConfigError, SinkError, UnknownStateError

if TYPE_CHECKING:
    from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint

CONFLICT: Final = 409
NOT_FOUND: Final = 404
_NO_ACCESS: Final = (401, 403)
_BUSY: Final = 429
_SERVER_FAULT: Final = 500


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
    login = {"http_auth": (endpoint.user, endpoint.password)} if endpoint.user else {}
    secure = {"ca_certs": endpoint.ca} if endpoint.ca else {}
    try:
        return OpenSearch(
            [endpoint.url], timeout=endpoint.timeout, max_retries=2, retry_on_timeout=False, **login, **secure
        )
    except (ImproperlyConfigured, OSError) as error:
        raise ConfigError(str(error), where=endpoint.where, todo="Correct the connection's fields.") from None


def explained(error: OpenSearchException, what: str, where: str) -> CdcError:
    """The error as one of this package's: what could not be done, the cluster's reason, and what to do next."""
    status, reason = status_of(error), reason_of(error)
    if isinstance(error, Unreachable) or status in (None, _BUSY) or status >= _SERVER_FAULT:
        return UnknownStateError(
            f"{what}: {reason}", where=where, todo="Check that the cluster is up and its address is right; try again."
        )
    if status in _NO_ACCESS:
        return SinkError(
            f"{what}: {reason}",
            where=where,
            todo="Correct the connection's login, or give that user the permissions that the page Privileges lists.",
        )
    return SinkError(f"{what}: {reason}", where=where)


def status_of(error: OpenSearchException) -> int | None:
    """The HTTP status, None if there was no answer."""
    status = error.status_code if isinstance(error, TransportError) else None
    return status if isinstance(status, int) else None


def reason_of(error: OpenSearchException) -> str:
    """The cluster's own words."""
    if not isinstance(error, TransportError):
        return str(error)
    info: Any = error.info
    cause = info.get("error") if isinstance(info, dict) else None
    if isinstance(cause, dict):
        return f"{error.status_code} {cause.get('type')}: {cause.get('reason')}"
    return f"{error.status_code} {cause or error.error}"
