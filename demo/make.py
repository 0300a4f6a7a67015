"""What the demo tells each make of server otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from stack.connections import Connection

if TYPE_CHECKING:
    from stack.cluster import Stack
    from stack.connect import ConnectWorker
    from stack.shop.check import TableCheck
    from stack.shop.gap import Gap

Settings = dict[str, str]


class Make(Protocol):
    """The shop on a running server of one make.

    Attributes:
        kind: `source.kind` in pipelines.yaml.
        title: what people call it.
        services: of the stack, with `servers` as the arguments for which database.
        writer: the module that changes rows.
        method: what `heal` is called.
        keeps_others_out: whether nobody can take the log away, or change a table, while it is being read.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    services: ClassVar[tuple[str, ...]]
    writer: ClassVar[str]
    method: ClassVar[str]
    keeps_others_out: ClassVar[bool]

    @classmethod
    def servers(cls) -> dict[str, Any]:
        """The server to start, as arguments of stack.cluster.start."""
        ...

    @classmethod
    def of(cls, stack: Stack) -> Self | None:
        """The shop on that stack's server, None if it is of another make."""
        ...

    @property
    def server(self) -> Any:
        """The server: its host, port, user, password (the administrator's) and version."""
        ...

    def connection(self) -> Connection:
        """The Airflow connection of the source."""
        ...

    def source(self) -> Mapping[str, str]:
        """What its source has in pipelines.yaml beside kind, conn_id and tables."""
        ...

    def fill(self, rows: int) -> Mapping[str, int]:
        """Make the shop's tables with so many rows in all; rows per table."""
        ...

    def connectors(self, bootstrap: str) -> dict[str, Settings]:
        """Settings of the connectors shop, whose first copy the recovery makes, and peer, which takes its own."""
        ...

    def streams(self, name: str, offset: Mapping[str, Any]) -> bool:
        """Whether a connector with this stored offset is past its own snapshot."""
        ...

    def break_log(self, *, alter: bool = True) -> Gap:
        """Change rows, and tables if `alter`, while the connectors are down, and take the log of it away."""
        ...

    def lost(self, gap: Gap) -> str:
        """What was taken away, in words."""
        ...

    def interfere(self) -> dict[str, str]:
        """What others try while the source is being read → what became of it: done, refused or waited."""
        ...

    def heal(self, worker: ConnectWorker, settings: Mapping[str, str]) -> None:
        """Let the failed peer get over the fault as Debezium itself does."""
        ...

    def end(self) -> str:
        """The end of the log."""
        ...

    def has_read(self, name: str, offset: Mapping[str, Any], end: str) -> bool:
        """Whether a connector with this stored offset has read that far."""
        ...

    def keys(self, table: str, columns: tuple[str, ...]) -> set[tuple[str, ...]]:
        """The keys of a table's rows as text."""
        ...

    def check(self, lake: Mapping[str, str], namespace: str) -> list[TableCheck]:
        """Every row of every table against the sink's, by means of its own."""
        ...
