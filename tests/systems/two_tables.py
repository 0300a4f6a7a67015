"""What the rows of `make systems` share: two tables, `kinds` with a key and a column of each type, `events` without a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from airflow_cdc.core.pipeline import sink_name
from tests.integration.recovering import FollowedDatabase
from tests.systems.case import Differences, Recovered, Row, differences


class Kind(NamedTuple):
    """A column: how it is declared, its value in row {n} (SQL; "": computed), and that value as the server and the sink have it."""

    declared: str
    value: str
    server: str
    sink: Callable[[Any], str]


def same(value: Any) -> str:
    return str(value)


def plain(value: Any) -> str:
    return format(value, "f")


def stamp(value: Any) -> str:
    return str(value.strftime("%Y-%m-%dT%H:%M:%S.%f")).rjust(26, "0")


@dataclass(slots=True)
class TwoTables:
    """The parts of case.System that are alike for all databases. KINDS: the columns beside `id`, by their quoted names."""

    followed: FollowedDatabase
    version: str

    KINDS: ClassVar[Mapping[str, Kind]]
    TEXT: ClassVar[str]  # a value as text, by the server
    QUOTE: ClassVar[str]

    def recover(self) -> Recovered:
        """See System."""
        done = self.followed.recover("recovery")
        return Recovered(done["decision"]["diagnosis"]["code"], done["verify"]["verdict"])

    def differences(self) -> Differences:
        """See System."""
        kinds = {"id": Kind("bigint", "", self.TEXT, same), **self.KINDS}
        events = {"n": Kind("int", "", self.TEXT, same), "t": Kind("text", "", self.TEXT, same)}
        return self._compared("kinds", kinds, 1) + self._compared("events", events, 0)

    def source_rows(self, table: str, columns: str) -> Sequence[Row]:
        """All rows of a table, each of these expressions as the server gives it."""
        raise NotImplementedError

    def sink_rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """All rows of a table of the sink, by the column's name."""
        rows: Sequence[Mapping[str, Any]] = self.followed.lake.read_arrow(
            self.followed.database, sink_name(table)
        ).to_pylist()
        return rows

    def _compared(self, table: str, kinds: Mapping[str, Kind], key: int) -> Differences:
        columns = ", ".join(kind.server.replace("{c}", name) for name, kind in kinds.items())
        mirrored = [self._row(kinds, row) for row in self.sink_rows(table)]
        return differences(self.source_rows(table, columns), mirrored, key)

    def _row(self, kinds: Mapping[str, Kind], row: Mapping[str, Any]) -> Row:
        values = [(kind, row.get(self._bare(name))) for name, kind in kinds.items()]
        return tuple(None if value is None else kind.sink(value) for kind, value in values)

    def _bare(self, name: str) -> str:
        quote = self.QUOTE
        return name[1:-1].replace(quote * 2, quote) if name.startswith(quote) else name
