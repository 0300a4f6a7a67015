"""A schema registry: the text of a schema by its id, as Confluent's interface or Apicurio's own gives it.

An answer counts for good: an id never names another schema. That the registry does not know an id is an answer; that it
does not answer is not, and nothing may be concluded from it.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias, TypeVar

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential, wait_random

from airflow_cdc.answers import TooMuchError, ask, explained, parsed
from airflow_cdc.core.endpoint import Address, CallLimits
from airflow_cdc.core.errors import ConfigError, TransportError
from airflow_cdc.core.tls import TlsSettings
from airflow_cdc.events.record import SchemaId

# what stands before the interface's name where Apicurio serves several of them
_APIS: Final = re.compile(r"/apis/(?:registry|ccompat)/v\d+$")
_NATIVE: Final = "/apis/registry/v2/ids"
_SYSTEM: Final = "/apis/registry/v2/system/info"
_GLOBAL: Final = "globalId"
_UNKNOWN_SCHEMA: Final = frozenset({404, 40403})
_CHECK: Final = "Check the registry's address in its connection, and that it answers there."
_LOGIN: Final = "Check login and password of the registry's connection, and that this user may read schemas."
_ELSE: Final = "Something else answers there, such as a proxy or a login page: check the URL."
# how Apicurio's own interface answers with a schema that is no JSON, which is Protobuf's
_AS_TEXT: Final = frozenset({"application/x-protobuf", "application/binary"})
_BUSY: Final = frozenset({408, 429, 500, 502, 503, 504})


T = TypeVar("T")
# An answer, and where it is from → what it says. Raises TransportError
_ReadAnswer: TypeAlias = Callable[[httpx.Response, str], T]


class RegistryBusyError(TransportError):
    """The registry did not answer, or not yet: it is asked again."""


@dataclass(frozen=True, slots=True)
class RegistryEndpoint(TlsSettings):
    """Address and credentials of a schema registry.

    `url` may carry login and password; they are moved into `user` and `password`. It is that of Confluent's interface
    (`https://registry:8081`), or one that Apicurio serves (`…/apis/registry/v2`, `…/apis/ccompat/v7`). `timeout` bounds
    one request, `retry_for` one call with its retries, both in seconds.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 30.0
    retry_for: float = 60.0
    trust_env: bool = False

    def __post_init__(self) -> None:
        address = Address.of(self.url, "the schema registry")
        if not address.url:
            raise ConfigError(
                "the registry's connection has no usable URL", todo="Write one like http://registry:8081."
            )
        object.__setattr__(self, "user", self.user or address.user)
        object.__setattr__(self, "password", self.password or address.password)
        object.__setattr__(self, "url", address.url)

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"schema registry {self.url}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return replace(self, timeout=min(self.timeout, limits.answer), retry_for=min(self.retry_for, limits.retry))

    def address_of(self, schema: SchemaId) -> str:
        """Where the schema's text is. Raises ConfigError for an id that this interface does not number by."""
        root = _APIS.sub("", self.url)
        if root != self.url:
            kind = "globalIds" if schema.kind == _GLOBAL else "contentIds"
            return f"{root}{_NATIVE}/{kind}/{schema.number}"
        if schema.kind == _GLOBAL:
            raise ConfigError(
                "the records name schemas by Apicurio's global ids, and the address is that of Confluent's interface,"
                " which numbers them otherwise",
                where=self.where,
                todo="Write the address with the interface, as https://registry:8080/apis/registry/v2.",
            )
        return f"{self.url}/schemas/ids/{schema.number}"


@explained(TransportError, "a schema registry")
class SchemaRegistry:
    """One registry. It remembers what it was told, for good; `close()` gives back its sockets."""

    def __init__(self, endpoint: RegistryEndpoint) -> None:
        self.endpoint = endpoint
        self._texts: dict[SchemaId, str] = {}
        self._client: httpx.Client | None = None
        self._closing: Callable[[], object] | None = None

    @property
    def where(self) -> str:
        """How messages name it."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    def reach(self) -> None:
        """See events.registry.Registry: a list that every interface has, and that may be empty."""
        root = _APIS.sub("", self.endpoint.url)
        native = root != self.endpoint.url
        address = f"{root}{_SYSTEM}" if native else f"{root}/subjects"
        self._retried(address, _reached)

    def texts(self, schemas: Iterable[SchemaId]) -> Mapping[SchemaId, str]:
        """The text of each schema; those that the registry does not know are absent.

        Raises TransportError if it does not answer, or refuses the login.
        """
        wanted = dict.fromkeys(schemas)
        for schema in wanted:
            if schema not in self._texts and (text := self._asked(schema)) is not None:
                self._texts[schema] = text
        return {schema: self._texts[schema] for schema in wanted if schema in self._texts}

    def close(self) -> None:
        """Give back the sockets."""
        if self._closing is not None:
            self._closing()
            self._client = self._closing = None

    def _asked(self, schema: SchemaId) -> str | None:
        return self._retried(self.endpoint.address_of(schema), _schema_in)

    def _retried(self, address: str, read: _ReadAnswer[T]) -> T:
        retrying = Retrying(
            retry=retry_if_exception_type(RegistryBusyError),
            stop=stop_after_delay(self.endpoint.retry_for),
            wait=wait_exponential(0.1, max=2.0) + wait_random(0, 0.1),
            reraise=True,
        )
        read_it: T = retrying(self._once, address, read)
        return read_it

    def _once(self, address: str, read: _ReadAnswer[T]) -> T:
        where = f"{self.where}, GET {address.removeprefix(self.endpoint.url)}"
        try:
            answer = ask(self._http(), "GET", address, within=self.endpoint.timeout)
        except TooMuchError as error:
            raise TransportError(str(error), where=where, todo=_ELSE) from None
        except httpx.HTTPError as error:
            raise _unanswered(error, where) from None
        return read(answer, where)

    def _http(self) -> httpx.Client:
        if self._client is None:
            e = self.endpoint
            self._client = httpx.Client(
                auth=httpx.BasicAuth(e.user, e.password) if e.user else None,
                verify=e.tls_context(e.where),
                timeout=httpx.Timeout(e.timeout, connect=min(e.timeout, 10.0)),
                headers={"Accept": "application/json, application/vnd.schemaregistry.v1+json;q=0.9, */*;q=0.5"},
                trust_env=e.trust_env,
            )
            # nothing announces the end of a run: its sockets are closed when the object is garbage-collected
            self._closing = weakref.finalize(self, self._client.close)
        return self._client


def _schema_in(answer: httpx.Response, where: str) -> str | None:
    """The text in an answer; None for one that says that there is none. Raises TransportError."""
    data = _json(answer)
    if answer.is_success and data is not None:
        return _text_of(data, where)
    if answer.is_success and _kind(answer) in _AS_TEXT:
        return answer.text
    if answer.status_code == 404 and isinstance(data, dict) and data.get("error_code") in _UNKNOWN_SCHEMA:
        return None
    raise _refusal(answer, where)


def _reached(answer: httpx.Response, where: str) -> None:
    """Raises TransportError for an answer that is none of a registry's."""
    if not answer.is_success or _json(answer) is None:
        raise _refusal(answer, where)


def _text_of(data: object, where: str) -> str:
    """Confluent's interface puts the text into an object as `schema`, Apicurio's own answers with the schema itself."""
    if not (isinstance(data, dict) and isinstance(data.get("schema"), str)):
        return json.dumps(data)
    if data.get("references"):
        raise TransportError(
            "the schema refers to others in the registry, which is not followed",
            where=where,
            todo="Let the converter register whole schemas (apicurio.registry.dereference-schema=true).",
        )
    return str(data["schema"])


def _json(answer: httpx.Response) -> object:
    try:
        return parsed(answer)
    except ValueError:
        return None


def _kind(answer: httpx.Response) -> str:
    kind: str = answer.headers.get("content-type", "no content type").split(";")[0]
    return kind


def _unanswered(error: httpx.HTTPError, where: str) -> TransportError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return TransportError(
            "the registry's certificate is not trusted", where=where, todo="Give its CA file in the connection."
        )
    return RegistryBusyError(f"the schema registry did not answer: {type(error).__name__}", where=where, todo=_CHECK)


def _refusal(answer: httpx.Response, where: str) -> TransportError:
    """What an answer without a schema means. The registry's own words are left out: they may repeat a login."""
    status = answer.status_code
    if status in {401, 403}:
        return TransportError(f"the schema registry refused the login (HTTP {status})", where=where, todo=_LOGIN)
    if status in _BUSY:
        return RegistryBusyError(f"the schema registry answered HTTP {status}", where=where, todo=_CHECK)
    return TransportError(
        f"the answer is no schema registry's: HTTP {status}, {_kind(answer)}",
        where=where,
        todo=_ELSE,
    )
