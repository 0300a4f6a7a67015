"""The address and credentials of a system, and how long one call to it may take."""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self


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

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

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
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    connect_timeout: float
    quick_read: float

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        connect, quick = min(self.connect_timeout, limits.answer), min(self.quick_read, limits.read)
        return replace(self, connect_timeout=connect, quick_read=quick)


@dataclass(frozen=True, slots=True)
class Login:
    """The address of a database server and the user to log in as."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
