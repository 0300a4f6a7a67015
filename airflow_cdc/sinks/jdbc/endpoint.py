"""The database that a JDBC sink connector fills: which one it is, and how to log in there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from airflow_cdc.core.endpoint import CallLimits

_LIMITS: Final = {"connect_timeout": "answer", "quick_read": "read"}


@dataclass(frozen=True, slots=True)
class JdbcEndpoint:
    """A database server as a source of its kind has it.

    Attributes:
        databases: the kinds of database that such a connection may lead to; after `of`, one.
        server: the fields of the endpoint of such a source, credentials included.
        place: how messages name the server. dataset: OpenLineage's namespace of its tables.
        namespace: the schema or database of tables for which the sink connector's settings name none.
    """

    databases: tuple[str, ...] = ()
    server: Mapping[str, object] = field(default_factory=dict, repr=False)
    place: str = ""
    dataset: str = ""
    namespace: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "databases", tuple(self.databases))
        object.__setattr__(self, "server", dict(self.server))

    @property
    def where(self) -> str:
        """How messages name the database."""
        return self.place

    @property
    def database(self) -> str:
        """The kind of the database."""
        return self.databases[0]

    def of(self, database: str, namespace: str = "") -> Self:
        """The endpoint of a database of this kind."""
        return replace(self, databases=(database,), namespace=namespace)

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        limited_by = {name: limit for name, limit in _LIMITS.items() if name in self.server}
        shorter = {name: min(self.server[name], getattr(limits, limit)) for name, limit in limited_by.items()}
        return replace(self, server={**self.server, **shorter})
