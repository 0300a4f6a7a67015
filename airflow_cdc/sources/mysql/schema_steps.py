"""Judge DDL statement by statement, each against the definition before it (INV 30).

The net effect only says where a table ended up. It shows no trace of a default that was given to old rows and then
dropped, of two columns with swapped names, or of decimal places that were cut off and added again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_cdc.core.errors import MALFORMED, UnreportedChangeError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.apply.ddl import Ddl, ReportedTable
from airflow_cdc.decisions.apply.schema_change import SchemaChange, refused
from airflow_cdc.sources.mysql.column_changes import check_column, generated_as, meaning
from airflow_cdc.sources.mysql.ddl_clauses import Clause, Kind, read_statement
from airflow_cdc.sources.mysql.types import INTEGERS, TEXTS, MySqlWords, words_of

# Values of these types look the same whether or not the column allows NULL (a zero date's do not).
_NO_CLOCKS = frozenset({*TEXTS, *INTEGERS, "decimal"})


def judge_ddl(stored: Table | None, statements: Sequence[Ddl], now: Table) -> SchemaChange | None:
    """Implements decisions.apply.ddl.JudgeDdl."""
    if stored is None:
        check_harmless(statements, now)
        return None
    return judge(stored, statements, now)


def judge(stored: Table, statements: Sequence[Ddl], now: Table) -> SchemaChange:
    """The change that takes a mirror from `stored`, the definition its rows have, to the source's current one, `now`.

    `statements` are those that the connector reported for the table in between, oldest first. Raises RereadNeededError
    naming the first statement that events do not carry, or that is not fully understood; UnreportedChangeError if the
    statements do not lead to `now`.
    """
    steps = _Steps(now, {column.name: column for column in stored.columns}, stored.key)
    for one in statements:
        steps.take(one)
    steps.check_end()
    known = {column.name for column in stored.columns}
    return SchemaChange(
        tuple(name for name in steps.columns if name not in known),
        tuple(sorted(steps.widened & steps.columns.keys() & known)),
        tuple(sorted(steps.dropped)),
        {name: value for name, value in steps.filled.items() if name in steps.columns},
        tuple(sorted(steps.never_null & steps.columns.keys())),
    )


def check_harmless(statements: Sequence[Ddl], now: Table) -> None:
    """Raise RereadNeededError for a statement that is not harmless, as the definition before it is not known."""
    for one in statements:
        if any(clause.kind is not Kind.NOTHING for clause in clauses_of(one)):
            raise refused(now, f"{one.short}, and the definition before it is unknown")


def clauses_of(one: Ddl) -> tuple[Clause, ...]:
    """The statement's clauses."""
    return read_statement(one.statement).clauses


@dataclass(slots=True)
class _Steps:
    """The definition as it was after the statements taken so far, and what happened to its columns."""

    now: Table
    columns: dict[str, Column]
    key: tuple[str, ...]
    widened: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    filled: dict[str, str] = field(default_factory=dict)
    never_null: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    last: ReportedTable | None = None

    def take(self, one: Ddl) -> None:
        """Apply one statement. Raises RereadNeededError unless all of it is understood and events carry it."""
        clauses = clauses_of(one)
        if any(clause.kind is Kind.UNKNOWN for clause in clauses):
            raise refused(self.now, f"rows may have changed without events by {one.short}")
        reported = one.after.get(self.now.full_name)
        if reported is None:
            if any(clause.kind is not Kind.NOTHING for clause in clauses):
                raise refused(self.now, f"the connector did not report the table's definition after {one.short}")
            return
        after = self._read(reported, one)
        for clause in clauses:
            _TAKE[clause.kind](self, clause, after)
        self._check(reported, after, one)
        self.last = reported

    def _read(self, reported: ReportedTable, one: Ddl) -> Mapping[str, Column]:
        try:
            return reported.columns()
        except MALFORMED as error:
            raise refused(self.now, f"{one.short}, whose resulting definition cannot be read: {error!r}") from None

    def _check(self, reported: ReportedTable, after: Mapping[str, Column], one: Ddl) -> None:
        """The connector's definition must equal ours, which proves that we overlooked nothing."""
        if self.columns.keys() != after.keys():
            raise refused(self.now, f"{one.short} left the columns {', '.join(after)}")
        placed = [replace(column, ordinal=after[name].ordinal) for name, column in self.columns.items()]
        if differences := reported.differences(replace(self.now, columns=tuple(placed), key=self.key)):
            raise refused(self.now, f"{one.short} changed more than was recognised: {differences[0]}")

    def check_end(self) -> None:
        """The source's definition must be the result of the statements."""
        differences = () if self.last is None else self.last.differences(self.now)
        for column in self.now.columns:
            mine = self.columns.get(column.name)
            if mine is None or not _same(mine, column, reported=column.name in self.reported):
                differences += (f"column {column.name}: {column.native.type} in the source",)
        gone = self.columns.keys() - {column.name for column in self.now.columns}
        differences += tuple(f"column {name}: not in the source" for name in sorted(gone))
        if differences or self.key != self.now.key:
            raise UnreportedChangeError(
                f"the reported DDL does not lead to the source's definition: {'; '.join(differences) or 'the key'}",
                where=f"table {self.now.full_name}",
                todo="Wait until the connector has read up to that point. If it has, it does not report all DDL: check its"
                " transforms and include.schema.changes.",
            )

    def add(self, clause: Clause, after: Mapping[str, Column]) -> None:
        """A new column, filled with NULL, or with one constant and never NULL."""
        name, new = clause.column, after.get(clause.column)
        if new is None or name in self.columns:
            raise refused(self.now, f"column {name} was added, and the connector's definition does not show it")
        if name in self.dropped:
            raise refused(self.now, f"column {name} was dropped and added again")
        if new.nullable is not clause.nullable:
            raise refused(self.now, f"column {name} was added, and it is uncertain whether it allows NULL")
        if not new.nullable or clause.default is not None:
            self.filled[name] = self._constant(new, clause.default)
        self.columns[name] = new
        self.reported.add(name)

    def _constant(self, column: Column, default: str | None) -> str:
        if column.nullable:
            raise refused(self.now, f"column {column.name} was added with a default: old rows have that value in it")
        value = constant_of(column, default)
        if value is None or self.now.keyless:
            raise refused(self.now, f"column {column.name} was added as NOT NULL: old rows have a value in it")
        return value

    def drop(self, clause: Clause, _after: Mapping[str, Column]) -> None:
        """A dropped column."""
        if clause.column not in self.columns or clause.column in self.key:
            raise refused(self.now, f"column {clause.column} was dropped, and was part of the key or not known")
        del self.columns[clause.column]
        self.filled.pop(clause.column, None)
        self.dropped.add(clause.column)

    def modify(self, clause: Clause, after: Mapping[str, Column]) -> None:
        """A changed column that keeps its name: widened, or NULL allowed or forbidden."""
        old, new = self.columns.get(clause.column), after.get(clause.column)
        if old is None or new is None:
            raise refused(self.now, f"column {clause.column} was changed and is not known")
        new = generated_as(new, old)
        if check_column(self.now, old, new):
            self.widened.add(old.name)
        if old.nullable is not new.nullable:
            self._nullable(old, new)
        self.columns[old.name] = new
        self.reported.add(old.name)

    def _nullable(self, old: Column, new: Column) -> None:
        if new.nullable:
            if old.name in self.filled or old.name in self.never_null:
                raise refused(
                    self.now, f"column {new.name} was NOT NULL and then nullable again: old rows have a value in it"
                )
            return
        if words_of(old).data_type not in _NO_CLOCKS or self.now.keyless:
            raise refused(self.now, f"column {new.name}: it became NOT NULL, and existing NULLs were replaced")
        self.never_null.add(new.name)

    def convert(self, _clause: Clause, after: Mapping[str, Column]) -> None:
        """All text columns get another character set."""
        for name, column in list(self.columns.items()):
            if words_of(column).charset:
                self.modify(Clause(Kind.MODIFY, name), after)

    def nothing(self, _clause: Clause, _after: Mapping[str, Column]) -> None:
        """A clause that does not change rows."""


_TAKE: Mapping[Kind, Callable[[_Steps, Clause, Mapping[str, Column]], None]] = {
    Kind.NOTHING: _Steps.nothing,
    Kind.ADD: _Steps.add,
    Kind.DROP: _Steps.drop,
    Kind.MODIFY: _Steps.modify,
    Kind.CONVERT: _Steps.convert,
}


def _same(mine: Column, theirs: Column, *, reported: bool) -> bool:
    """Whether two descriptions of a column mean the same rows. Types reported by a connector were compared before."""
    if reported:
        alike = (mine.nullable, mine.generated) == (theirs.nullable, theirs.generated)
        return alike and words_of(mine).expression == words_of(theirs).expression
    return meaning(mine) == meaning(theirs)


_NUMBER = re.compile(r"-?\d{1,38}")
_DECIMAL = re.compile(r"-?\d{1,38}(?:\.(\d+))?")
_DAY = re.compile(r"[1-9]\d{3}-\d\d-\d\d")


def constant_of(column: Column, default: str | None) -> str | None:
    """The value that all old rows got in an added NOT NULL column, as text; None if that is not certain.

    `default` None: the column has none, and the rows got the type's zero value.
    """
    words = words_of(column)
    rule = next((rule for kinds, rule in _CONSTANTS if words.data_type in kinds), None)
    return None if rule is None else rule(words, default)


def _integer(_words: MySqlWords, default: str | None) -> str | None:
    text = {None: "0", "TRUE": "1", "FALSE": "0"}.get(default, default or "")
    return text if _NUMBER.fullmatch(text) else None


def _decimal(words: MySqlWords, default: str | None) -> str | None:
    match = _DECIMAL.fullmatch("0" if default is None else default)
    return match[0] if match and len(match[1] or "") <= (words.scale or 0) else None


def _text(words: MySqlWords, default: str | None) -> str | None:
    text = default or ""
    plain = "\\" not in text and text.isprintable() and text.isascii() and text not in {"TRUE", "FALSE"}
    return (text.rstrip(" ") if words.data_type == "char" else text) if plain else None


def _label(words: MySqlWords, default: str | None) -> str | None:
    if default is None:
        return words.labels[0] if words.labels else None
    return default if default in words.labels else None


def _day(_words: MySqlWords, default: str | None) -> str | None:
    return default if default is not None and _DAY.fullmatch(default) else None


_CONSTANTS: Sequence[tuple[frozenset[str], Callable[[MySqlWords, str | None], str | None]]] = (
    (frozenset(INTEGERS), _integer),
    (frozenset({"decimal"}), _decimal),
    (frozenset(TEXTS), _text),
    (frozenset({"enum"}), _label),
    (frozenset({"date"}), _day),
)
