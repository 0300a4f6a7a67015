"""HTTP to Kafka Connect: what is retried, and what every other answer means.

Retried within a deadline: 409 (a rebalance is under way), and a worker that is restarting (refused or
broken connections, half answers, requests that its version serves and does not know yet). Everything else is a
ConnectorError that says what and where; its `status` is the HTTP status or None when there was no answer.
"""

from __future__ import annotations

import re
import ssl
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential, wait_random

from airflow_cdc.answers import TooMuchError, ask, parsed
from airflow_cdc.connectors.kafka_connect.auth import Identity
from airflow_cdc.core.endpoint import Address, CallLimits
from airflow_cdc.core.errors import ConfigError, ConnectorError
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.tls import TlsSettings, trusting_nobody

_TODO: Final[dict[int, str]] = {
    401: "Check login and password, or the token, of the Connect connection.",
    403: "The user of the Connect connection may not do this.",
    404: "Check the connector's name; `GET /connectors` lists those that exist.",
    405: "This Kafka Connect is too old for it (stop: 3.5, offsets: 3.6): name its topics in "
    "pipelines.yaml, `connector.offsets_topic` and `connector.status_topic`.",
    409: "Connect keeps rebalancing; see the worker's log, and try again.",
}
_STARTING: Final = "It may still be starting: see the worker's log, and try again."
_CHECK_URL: Final = "Check the URL of the connection, and that a Connect worker answers there."
SERVES_ALL: Final = (3, 6)
_BROKEN: Final = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class ConnectUnreachableError(ConnectorError):
    """No Connect worker answered in time."""


class ConnectorMissingError(ConnectorError):
    """There is no connector of this name."""

    unread = False  # it says something of the pipeline


class ConnectTooOldError(ConnectorError):
    """This Kafka Connect does not know the request."""

    unread = False  # it says something of the pipeline


class ConnectStartingError(ConnectorError):
    """This Kafka Connect serves the request, but did not know it until the deadline."""


class RebalancingError(ConnectorError):
    """Connect was rebalancing until the deadline."""


@dataclass(frozen=True, slots=True)
class ConnectEndpoint:
    """Address and credentials of a Connect cluster's REST interface.

    `url` may carry login and password; they are moved into `user` and `password`. `verify` is True,
    False or the path of a CA file. `token_url` and `scope`: see `auth.Identity`; `certificate`, `key` and `key_password`: a client certificate. `timeout` bounds one request, `retry_for` one call with its
    retries, both in seconds. `trust_env`: use proxies named by the environment.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    verify: bool | str = True
    timeout: float = 30.0
    retry_for: float = 60.0
    trust_env: bool = False
    token_url: str = ""
    scope: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)

    @property
    def identity(self) -> Identity:
        """Who asks."""
        return Identity(self.user, self.password, self.token_url, self.scope)

    def __post_init__(self) -> None:
        address, token = Address.of(self.url, "Kafka Connect"), Address.of(self.token_url, "the token server")
        if not address.url:
            raise ConfigError(
                "the Kafka Connect connection has no usable URL", todo="Write one like http://connect:8083."
            )
        object.__setattr__(self, "user", self.user or address.user or token.user)
        object.__setattr__(self, "password", self.password or address.password or token.password)
        object.__setattr__(self, "url", address.url)
        object.__setattr__(self, "token_url", token.url)

    @property
    def where(self) -> str:
        """How messages name this cluster."""
        return f"Kafka Connect {self.url}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        timeout, retry_for = min(self.timeout, limits.answer), min(self.retry_for, limits.retry)
        return replace(self, timeout=timeout, retry_for=retry_for)


class ConnectHttp:
    """JSON requests to one Connect cluster, with bounded retries."""

    def __init__(self, endpoint: ConnectEndpoint) -> None:
        self.endpoint = endpoint
        self._client: httpx.Client | None = None
        self._closing: Callable[[], object] | None = None

    def call(
        self,
        method: str,
        path: Sequence[str],
        *,
        body: object = None,
        params: dict[str, str] | None = None,
        secrets: Sequence[str] = (),
    ) -> Any:
        """One request: the parsed JSON of a 2xx answer, or None without content.

        `path` is in parts, which are quoted. `secrets` are values that must not come back in an error.
        Raises ConnectorError and its subclasses.
        """
        retrying = Retrying(
            retry=retry_if_exception_type((RebalancingError, ConnectUnreachableError, ConnectStartingError)),
            stop=stop_after_delay(self.endpoint.retry_for),
            wait=wait_exponential(0.1, max=2.0) + wait_random(0, 0.1),
            reraise=True,
        )
        return retrying(self._known, method, "/".join(["", *(quote(p, safe="") for p in path)]), body, params, secrets)

    def close(self) -> None:
        """Give back the sockets."""
        if self._closing is not None:
            self._closing()
            self._client = self._closing = None

    def _known(
        self, method: str, path: str, body: object, params: dict[str, str] | None, secrets: Sequence[str]
    ) -> object:
        """One request; a worker that starts answers before it knows its requests (seen on 4.3.1)."""
        try:
            return self._once(method, path, body, params, secrets)
        except ConnectTooOldError as error:
            if error.status == 404 and self._may_be_starting():
                raise ConnectStartingError(
                    "Connect does not know a request that its version serves", where=error.where, todo=_STARTING
                ) from None
            raise

    def _may_be_starting(self) -> bool:
        """Whether its version serves every request, or it does not tell its version yet: at first it serves nothing."""
        try:
            return release_of(self._once("GET", "", None, None, ())) >= SERVES_ALL
        except ConnectTooOldError as error:
            return error.status == 404

    def _once(
        self, method: str, path: str, body: object, params: dict[str, str] | None, secrets: Sequence[str]
    ) -> object:
        where = f"{self.endpoint.where}, {method} {path or '/'}"
        try:
            answer = ask(self._http(), method, path or "/", within=self.endpoint.timeout, json=body, params=params)
        except httpx.TimeoutException as error:
            raise ConnectorError(
                f"no answer within {self.endpoint.timeout:g} s ({type(error).__name__})", where=where, todo=_CHECK_URL
            ) from None
        except _BROKEN as error:
            raise _broken(error, where) from None
        except TooMuchError as error:
            raise ConnectorError(str(error), where=where, todo=_CHECK_URL) from None
        except httpx.HTTPError as error:
            raise ConnectorError(f"the request failed: {type(error).__name__}", where=where, todo=_CHECK_URL) from None
        return _content(answer, where, secrets)

    def _http(self) -> httpx.Client:
        if self._client is None:
            e = self.endpoint
            self._client = httpx.Client(
                base_url=e.url,
                auth=e.identity.auth(),
                verify=_verify(e),
                timeout=httpx.Timeout(e.timeout, connect=min(e.timeout, 10.0)),
                headers={"Accept": "application/json"},
                trust_env=e.trust_env,
            )
            # nothing announces the end of a run: its sockets are closed when the object is garbage-collected
            self._closing = weakref.finalize(self, self._client.close)
        return self._client


def release_of(root: object) -> tuple[int, ...]:
    """The first two numbers of the worker's version; () where it does not say."""
    match = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", str(root.get("version", "")) if isinstance(root, dict) else "")
    return tuple(map(int, match.groups())) if match else ()


def _verify(endpoint: ConnectEndpoint) -> ssl.SSLContext | bool:
    if isinstance(endpoint.verify, bool) and not endpoint.certificate:
        urls = [endpoint.url, *filter(None, [endpoint.token_url])]
        plain = not endpoint.trust_env and all(httpx.URL(url).scheme == "http" for url in urls)
        return trusting_nobody() if plain else endpoint.verify
    ca_file = "" if isinstance(endpoint.verify, bool) else endpoint.verify
    return TlsSettings(
        ca_file=ca_file,
        verify=endpoint.verify is not False,
        cert_file=endpoint.certificate,
        key_file=endpoint.key,
        key_password=endpoint.key_password,
    ).tls_context(endpoint.where)


def _broken(error: httpx.HTTPError, where: str) -> ConnectorError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return ConnectorError(
            "the certificate of Connect is not trusted", where=where, todo="Give its CA file in the connection."
        )
    reason = str(error) or type(error).__name__
    return ConnectUnreachableError(f"Connect could not be reached: {reason}", where=where, todo=_CHECK_URL)


def _content(answer: httpx.Response, where: str, secrets: Sequence[str]) -> object:
    """The JSON of a good answer; a bad one becomes the error that it means."""
    if answer.is_success and not answer.content:
        return None
    data = _json(answer)
    if answer.is_success:
        if data is None:
            raise _not_json(answer, where)
        return data
    raise _refusal(answer, data, where, secrets)


def _json(answer: httpx.Response) -> object:
    try:
        return parsed(answer)
    except ValueError:
        return None


def _not_json(answer: httpx.Response, where: str) -> ConnectorError:
    kind = answer.headers.get("content-type", "no content type").split(";")[0]
    return ConnectorError(
        f"the answer is not JSON but {kind} (HTTP {answer.status_code})",
        where=where,
        todo="Something else answers there, such as a proxy or a login page: check the URL.",
        status=answer.status_code,
    )


def _refusal(answer: httpx.Response, data: object, where: str, secrets: Sequence[str]) -> ConnectorError:
    status = answer.status_code
    if not isinstance(data, dict):
        # a 404 or 405 without Connect's own JSON is a path that this version does not serve
        return _not_json(answer, where)
    message = mask_text(str(data.get("message") or answer.reason_phrase), secrets)
    known: type[ConnectorError] = ConnectorError
    if status == 409:
        # the other 409s (rebalance, stale configuration, no leader yet) pass by themselves
        known = ConnectorError if "already exists" in message else RebalancingError
    elif status == 500 and "a rebalance is expected" in message:
        known = RebalancingError  # Connect 4.3.1 refuses GET …/config so where other requests get a 409
    elif status == 405 or (status == 404 and message.strip() in ("HTTP 404 Not Found", "Not Found")):
        known = ConnectTooOldError
        return known(f"Connect does not know this request: {message}", where=where, todo=_TODO[405], status=status)
    elif status == 404:
        known = ConnectorMissingError
    return known(f"HTTP {status}: {message}", where=where, todo=_TODO.get(status, ""), status=status)
