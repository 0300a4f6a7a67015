"""The address and credentials of a system, how long one call to it may take, and what every client of one has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from typing import ClassVar, Final, NamedTuple, Protocol, Self
from urllib.parse import unquote

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.secrets import secrets_of

_PORT: Final = re.compile(r"[^:/]*:\d{1,5}$|[^:]*$|\[[0-9a-fA-F:.]+\](:\d{1,5})?$")
_LOGIN: Final = re.compile(r"://[^\s:/?#@]*:([^\s@]+)@")


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long one call may take, in seconds, if it is repeated automatically soon.

    Without these limits a look at a worker that was gone took 66 s, 60 s of them the client's retries, which are meant
    for calls that nobody repeats. Brokers get longer, because a call may read a whole topic of table definitions.
    """

    answer: float = 5.0
    retry: float = 1.0
    read: float = 10.0
    topic: float = 15.0

    @classmethod
    def waited_for(cls, seconds: float) -> CallLimits:
        """Limits for a command that a person waits for: a short time to answer, and no limit for reading."""
        return cls(answer=seconds, retry=seconds, read=math.inf, topic=seconds)


class Endpoint(Protocol):
    """Address and credentials of one system: a frozen dataclass of plain values, credentials out of its repr."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    @property
    def where(self) -> str:
        """How messages name the system."""
        ...

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        ...


class DataEndpoint(Endpoint, Protocol):
    """An endpoint of a system that holds tables: a source or a sink."""

    @property
    def dataset(self) -> str:
        """OpenLineage's namespace of its tables, without credentials."""
        ...


class TimedServer:
    """Base of the endpoints of database servers: a frozen dataclass with these two fields, in seconds."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    connect_timeout: float
    quick_read: float

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        connect, quick = min(self.connect_timeout, limits.answer), min(self.quick_read, limits.read)
        return replace(self, connect_timeout=connect, quick_read=quick)


class Unlimited:
    """Base of endpoints and clients without calls that a limit can shorten: nobody is asked, or the system's own settings say."""

    __slots__ = ()

    def limited(self, _: CallLimits) -> Self:
        """Itself."""
        return self


class Address(NamedTuple):
    """An HTTP address without the login that was written into it, and that login."""

    url: str
    user: str = ""
    password: str = ""

    @classmethod
    def of(cls, text: str, system: str) -> Address:
        """Taken apart; "" stays "". A password may hold a slash, as in http://user:a/b@host.

        `system` names it in the error. Raises ConfigError, which does not repeat the text, for one that can be read in
        two ways or has no host.
        """
        text = text.strip()
        if not text:
            return cls("")
        scheme, there, rest = text.rpartition("://") if text.count("://") == 1 else ("http", "", text)
        login, path = _login_and_rest(rest)
        host = re.split(r"[/?#]", path, maxsplit=1)[0]
        if scheme not in {"http", "https"} or not host or "@" in host or host.startswith(":") or "://" in rest:
            raise ConfigError(
                f"the address of {system} is no usable URL",
                where=f"the connection of {system}",
                todo="Write it like https://host:8443/path, and login and password into their own fields.",
            )
        user, _, password = login.partition(":")
        bare = re.split(r"[?#]", path, maxsplit=1)[0].rstrip("/")
        return cls(f"{scheme if there else 'http'}://{bare}", unquote(user), unquote(password))


def _login_and_rest(text: str) -> tuple[str, str]:
    """What follows the scheme: login and the rest. Two readings are left to the caller, with the "@" in the host."""
    head = re.split(r"[/?#]", text, maxsplit=1)[0]
    if "@" in head:
        login, _, host = head.rpartition("@")
        # p@ss/w@host: the host would be a part of the password
        return (login, host + text[len(head) :]) if "@" not in text[len(head) :] else ("", f"@{text}")
    if "@" in text and not _PORT.fullmatch(head):
        login, _, rest = text.rpartition("@")
        return login, rest
    return "", text


def secrets_in(endpoint: object) -> Iterator[str]:
    """The secrets of an endpoint by value: fields that its repr leaves out, and logins in its addresses."""
    if not is_dataclass(endpoint) or isinstance(endpoint, type):
        return
    for one in fields(endpoint):
        value = getattr(endpoint, one.name)
        if isinstance(value, Mapping):
            texts = {str(name): str(text) for name, text in value.items()}
            yield from secrets_of(texts)
            for text in texts.values():
                yield from map(unquote, _LOGIN.findall(text))
        elif isinstance(value, str) and not one.repr:
            yield value
        elif is_dataclass(value):
            yield from secrets_in(value)


@dataclass(frozen=True, slots=True)
class Login:
    """The address of a database server and the user to log in as."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)


class Client(Protocol):
    """The methods of every client of a system. Creating one opens no connection."""

    @property
    def where(self) -> str:
        """How messages name the system."""
        ...

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        ...
