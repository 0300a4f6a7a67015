"""Random statements and steps out of one seeded dice. Pure: nothing here connects to anything.

The sequence depends on the seed, the switches and on which definition changes the server took (`settle`), and on
nothing else: the same seed gives the same statements again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tests.adversary.form import Form, form_of
from tests.adversary.schema import Column, Table, pool_of, quote, schema, with_column, without_column


class Step(StrEnum):
    """What the product is asked to do between two lots of statements."""

    APPLY = "apply"
    GAP = "gap"  # the log is purged while the connector is stopped, then a recovery
    REPAIR = "repair"
    CHECK = "check"
    REREAD = "reread"  # a recovery that a person asks for, without a gap


@dataclass(frozen=True, slots=True)
class Op:
    """Statements of one session, for one table. `after`: the table's definition once they are done."""

    kind: str
    table: str
    statements: tuple[str, ...]
    after: Table | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """Statements before a step, statements beside it, and the step."""

    before: tuple[Op, ...]
    step: Step
    beside: tuple[Op, ...]


MODES: dict[str, tuple[str, ...]] = {
    "decimal.handling.mode": ("precise", "precise", "string"),
    "bigint.unsigned.handling.mode": ("long", "precise"),
    "binary.handling.mode": ("bytes", "bytes", "base64", "hex"),
    "skipped.operations": ("none", "t"),
    "key.converter.schemas.enable": ("false", "true"),
    "value.converter.schemas.enable": ("false", "true"),
    "tombstones.on.delete": ("true", "true", "false"),
    "enable.time.adjuster": ("false", "false", "true"),
}


DAYS_SHARE = 0.1


@dataclass(slots=True)
class Generator:
    """Everything random of one seed."""

    seed: int
    without: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()  # table names that other seeds of the database have
    dice: random.Random = field(init=False)
    tables: dict[str, Table] = field(init=False)
    modes: dict[str, str] = field(init=False)
    form: Form = field(init=False)
    _fresh: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        if self.dice.random() > DAYS_SHARE:  # one such day stops the connector, and with it the seed
            self.without |= {"days"}
        self.form = form_of(self.seed, self.without)
        tables = [self.form.fitting(self._renamed(table)) for table in schema(self.dice, self.without)]
        self.tables = {table.name: table for table in tables}
        self.modes = {name: self.dice.choice(values) for name, values in MODES.items()}
        partitions = "1" if "partitions" in self.without else self.dice.choice(("1", "3"))
        self.modes["topic.creation.default.partitions"] = partitions

    def _renamed(self, table: Table) -> Table:
        return replace(table, name=f"{table.name}_{self.seed}") if table.name in self.taken else table

    def seed_of(self, table: str) -> int:
        """Whose table it is."""
        del table
        return self.seed

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds whose tables these are."""
        return (self.seed,)

    def fill(self) -> Iterator[Op]:
        """CREATE TABLE and the first rows of every table."""
        for table in self.tables.values():
            yield Op("create", table.name, (table.create(),))
            yield from (self._insert(table) for _ in range(min(table.rows, 60)))
            if table.rows > 60:
                yield self._many(table)

    def rounds(self, count: int) -> Iterator[Round]:
        """`count` rounds; the last but one statement lot is drawn when the one before was settled."""
        for _ in range(count):
            before = tuple(self._ops(self.dice.randint(4, 14)))
            step = self.dice.choice(self._steps())
            yield Round(before, step, tuple(self._ops(self.dice.randint(0, 6), ddl=False)))

    def settle(self, op: Op) -> None:
        """The server took all statements of a definition change: go on from the table as it is now."""
        if op.after is not None:
            self.tables[op.table] = op.after

    def _steps(self) -> tuple[Step, ...]:
        usual = (Step.APPLY, Step.APPLY, Step.APPLY, Step.GAP, Step.GAP, Step.REREAD, Step.CHECK)
        return usual if "damage" in self.without else (*usual, Step.REPAIR)

    def _ops(self, count: int, *, ddl: bool = True) -> Iterator[Op]:
        for _ in range(count):
            table = self.dice.choice(list(self.tables.values()))
            if ddl and self.dice.random() < 0.08:
                yield self._ddl(table)
            else:
                yield self.dice.choice(_DML)(self, table)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _insert(self, table: Table) -> Op:
        return Op("insert", table.name, (self._insert_sql(table, "INSERT INTO"),))

    def _replace(self, table: Table) -> Op:
        return Op("replace", table.name, (self._insert_sql(table, "REPLACE INTO"),))

    def _upsert(self, table: Table) -> Op:
        insert = self._insert_sql(table, "INSERT INTO")
        return Op("upsert", table.name, (f"{insert} ON DUPLICATE KEY UPDATE {self._assignments(table)}",))

    def _insert_sql(self, table: Table, verb: str) -> str:
        columns = table.stored
        names = ", ".join(quote(column.name) for column in columns)
        values = ", ".join(self._literal(column, table) for column in columns)
        return f"{verb} {quote(table.name)} ({names}) VALUES ({values})"

    def _many(self, table: Table) -> Op:
        """Many rows at once; the first key column is a number there."""
        columns = table.stored
        names = ", ".join(quote(column.name) for column in columns)
        values = ", ".join("i" if c.name in table.key else self._literal(c, table) for c in columns)
        numbers = f"WITH RECURSIVE i(i) AS (SELECT 5000 UNION ALL SELECT i + 1 FROM i WHERE i < {5000 + table.rows})"
        return Op("many", table.name, (f"INSERT INTO {quote(table.name)} ({names}) {numbers} SELECT {values} FROM i",))

    def _update(self, table: Table) -> Op:
        sql = f"UPDATE {quote(table.name)} SET {self._assignments(table)} WHERE {self._where(table)}"
        return Op("update", table.name, (sql,))

    def _there_and_back(self, table: Table) -> Op:
        """A value that goes and comes back within one transaction."""
        name, where = quote(table.name), self._where(table, hits="n")
        there = f"UPDATE {name} SET ticks = ticks + 100 WHERE {where}"
        back = f"UPDATE {name} SET ticks = ticks - 100 WHERE {where}"
        return Op("there_and_back", table.name, ("BEGIN", there, back, "COMMIT"))

    def _move_key(self, table: Table) -> Op:
        if not table.key:
            return self._update(table)
        column = table.column(self.dice.choice(table.key))
        sql = f"UPDATE {quote(table.name)} SET {quote(column.name)} = {self._literal(column, table)} WHERE n = {self._n()}"
        return Op("move_key", table.name, (sql,))

    def _delete(self, table: Table) -> Op:
        return Op("delete", table.name, (f"DELETE FROM {quote(table.name)} WHERE {self._where(table)}",))

    def _again(self, table: Table) -> Op:
        """Delete and insert in one transaction."""
        delete = f"DELETE FROM {quote(table.name)} WHERE {self._where(table)}"
        return Op("again", table.name, ("BEGIN", delete, self._insert_sql(table, "REPLACE INTO"), "COMMIT"))

    def _rolled_back(self, table: Table) -> Op:
        """A savepoint undone, the rest committed."""
        update = f"UPDATE {quote(table.name)} SET {self._assignments(table)} WHERE {self._where(table)}"
        insert = self._insert_sql(table, "REPLACE INTO")
        return Op("rolled_back", table.name, ("BEGIN", insert, "SAVEPOINT s", update, "ROLLBACK TO s", "COMMIT"))

    def _xa(self, table: Table) -> Op:
        if "xa" in self.without:
            return self._update(table)
        self._fresh += 1
        end, xid = self.dice.choice(("COMMIT", "ROLLBACK")), f"'x{self.seed}-{self._fresh}'"
        change = self._insert_sql(table, "REPLACE INTO")
        return Op(
            "xa", table.name, (f"XA START {xid}", change, f"XA END {xid}", f"XA PREPARE {xid}", f"XA {end} {xid}")
        )

    def _session(self, table: Table) -> Op:
        """A session that logs its changes otherwise than the server's settings say, or not at all."""
        if "session" in self.without:
            return self._update(table)
        setting = self.dice.choice(UNSEEN_SESSIONS if "stops" in self.without else SESSIONS)
        update = f"UPDATE {quote(table.name)} SET {self._assignments(table)} WHERE n % 2 = 1"
        return Op("session", table.name, (f"SET SESSION {setting}", update))

    def _assignments(self, table: Table) -> str:
        free = [c for c in table.stored if c.name not in table.key and c.name != "ticks"]
        chosen = self.dice.sample(free, min(len(free), self.dice.randint(1, 3)))
        return ", ".join(f"{quote(column.name)} = {self._literal(column, table)}" for column in chosen)

    def _where(self, table: Table, hits: str = "") -> str:
        if table.key and not hits and self.dice.random() < 0.5:
            column = table.column(self.dice.choice(table.key))
            return f"{quote(column.name)} = {self._literal(column, table)}"
        return self.dice.choice((f"n = {self._n()}", f"n % 7 = {self.dice.randint(0, 6)}"))

    def _n(self) -> int:
        return self.dice.randint(0, 30)

    def _literal(self, column: Column, table: Table) -> str:
        if column.name == "n":
            return str(self._n())
        if column.name == "ticks":
            return "0"
        if column.nullable and column.name not in table.key and self.dice.random() < 0.2:
            return "NULL"
        for prefix, random_value in _RANDOM.items():
            if column.ddl.startswith(prefix) and self.dice.random() < 0.4:
                return random_value(self.dice)
        return self.dice.choice(column.values)

    # --- definitions -------------------------------------------------------------------------------------------------

    def _ddl(self, table: Table) -> Op:
        kinds = [make for make, trouble in _DDL if trouble not in self.without]
        return self.dice.choice(kinds)(self, table)

    def _alter(self, kind: str, table: Table, *clauses: str, after: Table | None = None) -> Op:
        style = STYLES[0] if "style" in self.without else self.dice.choice(STYLES)
        return Op(kind, table.name, tuple(style.format(quote(table.name), clause) for clause in clauses), after)

    def _rename_into_place(self, table: Table) -> Op:
        """Another table of the same columns takes the place of this one, as online schema changes do it."""
        self._fresh += 1
        name, new, old = (
            quote(text) for text in (table.name, f"new{self.seed}_{self._fresh}", f"old{self.seed}_{self._fresh}")
        )
        copy = (f"CREATE TABLE {new} LIKE {name}", f"INSERT INTO {new} SELECT * FROM {name} WHERE n % 3 = 0")
        return Op("rename_into_place", table.name, (*copy, f"RENAME TABLE {name} TO {old}, {new} TO {name}"))

    def _new_column(self, ddl: str = "", values: tuple[str, ...] = ("1", "2")) -> Column:
        self._fresh += 1
        if ddl:
            return Column(f"added{self._fresh}", ddl, values)
        pool = [c for c in pool_of() if c.nullable and c.wanted(self.without) and "DEFAULT" not in c.ddl]
        return replace(self.dice.choice(pool), name=f"added{self._fresh}")

    def _free(self, table: Table) -> Column | None:
        """A column that nothing hangs on."""
        free = [c for c in table.stored if c.name not in (*table.key, "n", "ticks")]
        return self.dice.choice(free) if free else None

    def _add(self, table: Table) -> Op:
        column = self._new_column()
        place = self.dice.choice(("", " FIRST", " AFTER n"))
        clause = f"ADD COLUMN {quote(column.name)} {column.ddl}{place}"
        return self._alter("add", table, clause, after=with_column(table, column))

    def _add_default(self, table: Table) -> Op:
        ddl = self.dice.choice(
            ("int NOT NULL DEFAULT 7", "varchar(10) NULL DEFAULT 'new'", "decimal(8,2) DEFAULT '1.50'")
        )
        column = self._new_column(ddl)
        return self._alter("add_default", table, f"ADD {quote(column.name)} {ddl}", after=with_column(table, column))

    def _add_then_drop_default(self, table: Table) -> Op:
        column = self._new_column("varchar(10) NULL DEFAULT 'new'", ("'new'", "'old'"))
        name, bare = quote(column.name), replace(column, ddl="varchar(10) NULL")
        clauses = (f"ADD {name} {column.ddl}", f"ALTER {name} DROP DEFAULT")
        return self._alter("add_then_drop_default", table, *clauses, after=with_column(table, bare))

    def _add_then_null(self, table: Table) -> Op:
        column = self._new_column("int NOT NULL DEFAULT 7")
        name, bare = quote(column.name), replace(column, ddl="int NULL")
        clauses = (f"ADD {name} {column.ddl}", f"MODIFY {name} int NULL")
        return self._alter("add_then_null", table, *clauses, after=with_column(table, bare))

    def _text_default(self, table: Table) -> Op:
        text = self.dice.choice(("'NULL'", "'CURRENT_TIMESTAMP'"))
        column = self._new_column(f"varchar(40) NULL DEFAULT {text}", ("'x'", text))
        return self._alter(
            "text_default", table, f"ADD {quote(column.name)} {column.ddl}", after=with_column(table, column)
        )

    def _shrink_and_grow(self, table: Table) -> Op:
        """A decimal loses its fraction and gets room for it again."""
        decimals = [c for c in table.stored if c.ddl.startswith("decimal(9,2)") and c.name not in table.key]
        column = decimals[0] if decimals else self._new_column("decimal(10,2) NULL", ("1.25", "-3.75"))
        name, wider = quote(column.name), replace(column, ddl="decimal(12,2)")
        fill = () if decimals else (f"UPDATE {quote(table.name)} SET {name} = 1.25",)
        first = () if decimals else self._alter("add", table, f"ADD {name} {column.ddl}").statements
        there_and_back = self._alter("", table, f"MODIFY {name} decimal(10,0)", f"MODIFY {name} decimal(12,2)")
        statements = (*first, *fill, *there_and_back.statements)
        return Op("shrink_and_grow", table.name, statements, with_column(table, wider))

    def _swap_names(self, table: Table) -> Op:
        """Two columns of one type change names, in three statements."""
        pairs = [(a, b) for a in table.stored for b in table.stored if _swappable(table, a, b)]
        if not pairs:
            return self._comment(table)
        one, two = self.dice.choice(pairs)
        steps = ((one.name, "swap_tmp", one.ddl), (two.name, one.name, two.ddl), ("swap_tmp", two.name, one.ddl))
        clauses = tuple(f"CHANGE {quote(old)} {quote(new)} {ddl}" for old, new, ddl in steps)
        columns = tuple(
            {one.name: replace(one, name=two.name), two.name: replace(two, name=one.name)}.get(c.name, c)
            for c in table.columns
        )
        return self._alter("swap_names", table, *clauses, after=replace(table, columns=columns))

    def _rename_and_add(self, table: Table) -> Op:
        column = self._free(table)
        if column is None:
            return self._comment(table)
        self._fresh += 1
        old = f"old{self._fresh}"
        clause = f"CHANGE {quote(column.name)} {quote(old)} {column.ddl}, ADD {quote(column.name)} {column.ddl}"
        after = with_column(table, replace(column, name=old))
        return self._alter("rename_and_add", table, clause, after=after)

    def _drop(self, table: Table) -> Op:
        column = self._free(table)
        if column is None:
            return self._comment(table)
        return self._alter("drop", table, f"DROP COLUMN {quote(column.name)}", after=without_column(table, column))

    def _drop_and_add(self, table: Table) -> Op:
        column = self._free(table)
        if column is None:
            return self._comment(table)
        name = quote(column.name)
        return self._alter("drop_and_add", table, f"DROP {name}", f"ADD {name} {column.ddl}", after=table)

    def _noted(self, table: Table) -> Op:
        """A column dropped and added behind a text that holds what begins a comment elsewhere."""
        column = self._free(table)
        if column is None:
            return self._comment(table)
        note, name = self.dice.choice(("ticket #5", "a -- b", "see /* x")), quote(column.name)
        clause = f"COMMENT = '{note}', DROP {name}, ADD {name} {column.ddl}"
        return Op("noted", table.name, (f"ALTER TABLE {quote(table.name)} {clause}",), table)

    def _widen(self, table: Table) -> Op:
        wide = {"int": "bigint", "varchar(20)": "varchar(30)", "varchar(40)": "varchar(60)", "text": "mediumtext"}
        fits = [c for c in table.stored if c.ddl in wide and c.name not in (*table.key, "n", "ticks")]
        if not fits:
            return self._comment(table)
        column = self.dice.choice(fits)
        wider = replace(column, ddl=wide[column.ddl])
        clause = f"MODIFY {quote(column.name)} {wider.ddl}"
        return self._alter("widen", table, clause, after=with_column(table, wider))

    def _widen_key(self, table: Table) -> Op:
        """A key of whole numbers becomes a BIGINT."""
        fits = [c for c in table.stored if c.name in table.key and c.ddl in _NARROW]
        if not fits:
            return self._widen(table)
        wider = replace(fits[0], ddl="bigint NOT NULL")
        clause = f"MODIFY {quote(wider.name)} {wider.ddl}"
        return self._alter("widen_key", table, clause, after=with_column(table, wider))

    def _comment(self, table: Table) -> Op:
        return self._alter("comment", table, self.dice.choice(("COMMENT = 'x'", "ADD INDEX (n)", "FORCE")))

    def _truncate(self, table: Table) -> Op:
        """Alone, or before or after another statement about the table, which leaves its number as it is or changes it."""
        name, self._fresh = quote(table.name), self._fresh + 1
        beside = self.dice.choice(BESIDE_TRUNCATE)
        others = [one.format(name, f"beside{self._fresh}") for one in beside]
        truncate = [f"TRUNCATE TABLE {name}", self._insert_sql(table, "INSERT INTO")]
        both = [*truncate, *others] if self.dice.random() < 0.5 else [*others, *truncate]
        return Op("truncate", table.name, tuple(both))


def _swappable(table: Table, one: Column, two: Column) -> bool:
    fixed = (*table.key, "n", "ticks")
    return one.name < two.name and one.ddl == two.ddl and one.name not in fixed and two.name not in fixed


_DML: tuple[Callable[[Generator, Table], Op], ...] = (
    *(Generator._insert,) * 4,
    *(Generator._update,) * 5,
    *(Generator._replace,) * 2,
    Generator._upsert,
    Generator._there_and_back,
    *(Generator._move_key,) * 2,
    *(Generator._delete,) * 2,
    Generator._again,
    Generator._rolled_back,
    Generator._xa,
    Generator._session,
)
UNSEEN_SESSIONS = (
    "binlog_format = STATEMENT",
    "sql_log_bin = 0",
    "binlog_row_value_options = PARTIAL_JSON",
    "time_zone = '+05:30'",
)
SESSIONS = ("binlog_row_image = MINIMAL", "binlog_row_image = NOBLOB", *UNSEEN_SESSIONS)
# ALTER TABLE of a name and a clause, as people and tools write it
STYLES = (
    "ALTER TABLE {} {}",
    "alter table {} {}",
    "ALTER TABLE /* a note */ {}\n  {}",
    "ALTER TABLE {} /*! {} */",
    "ALTER /*!50000 TABLE */ {} {}",
    "-- a note\nALTER TABLE {} {};",
    "# a note\nALTER TABLE {}\t{}",
    "ALTER TABLE {} {}, ALGORITHM = COPY",
    "/* ALTER TABLE x */ ALTER TABLE {} {}",
)
# what is done to a table before or after its TRUNCATE, of the table's name and a new one
BESIDE_TRUNCATE: tuple[tuple[str, ...], ...] = (
    (),
    ("CREATE INDEX {1} ON {0} (n)",),
    ("CREATE INDEX {1} ON {0} (n)", "DROP INDEX {1} ON {0}"),
    ("ALTER TABLE {0} ADD INDEX {1} (n)",),
    ("ALTER TABLE {0} COMMENT = '{1}'",),
    ("ALTER TABLE {0} ADD COLUMN {1} INT", "ALTER TABLE {0} DROP COLUMN {1}"),
    ("ALTER TABLE {0} FORCE",),
    ("OPTIMIZE TABLE {0}",),
)
# how a definition changes, and the switch that leaves it out
_DDL: tuple[tuple[Callable[[Generator, Table], Op], str], ...] = (
    (Generator._add, ""),
    (Generator._add, ""),
    (Generator._widen, ""),
    (Generator._comment, ""),
    (Generator._drop, ""),
    (Generator._add_default, ""),
    (Generator._add_then_drop_default, "ddl"),
    (Generator._add_then_null, "ddl"),
    (Generator._text_default, "ddl"),
    (Generator._shrink_and_grow, "ddl"),
    (Generator._swap_names, "ddl"),
    (Generator._rename_and_add, "ddl"),
    (Generator._noted, "ddl"),
    (Generator._drop_and_add, ""),
    (Generator._truncate, "truncate"),
    (Generator._widen_key, "partitions"),
    (Generator._rename_into_place, "rename"),
)
_NARROW = ("int NOT NULL", "smallint unsigned NOT NULL", "tinyint NOT NULL")


def _text(dice: random.Random) -> str:
    letters = dice.choice(("ab |'\\\"", "äöüß€", "日本語😀", "NULL0\t\n"))
    text = "".join(dice.choice(letters) for _ in range(dice.randint(0, 6)))
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _ascii(dice: random.Random) -> str:
    return "'" + "".join(dice.choice("abc |;,") for _ in range(dice.randint(0, 6))) + "'"


# the beginning of a column's definition → a random value of it
_RANDOM: dict[str, Callable[[random.Random], str]] = {
    "bigint NOT NULL": lambda dice: str(dice.randint(-50, 4000)),
    "bigint": lambda dice: str(dice.randint(0, 2**62)),
    "int": lambda dice: str(dice.randint(0, 2**31 - 1)),
    "varchar(30) NOT NULL": _text,
    "varchar(30) COLLATE": _text,
    "varchar(40) COLLATE": _text,
    "varchar(40)": _ascii,
    "char(": _ascii,
    "text": _text,
    "decimal(9,2)": lambda dice: f"{dice.randint(-(10**9), 10**9) / 100:.2f}",
    "decimal(65,30)": lambda dice: f"{dice.randint(-(10**34), 10**34)}.{dice.randint(0, 10**29)}",
    "decimal(": lambda dice: f"{dice.randint(0, 9999999)}.{dice.randint(0, 99999)}",
    "double": lambda dice: repr(dice.uniform(-1, 1) * 10.0 ** dice.randint(-300, 300)),
    "datetime": lambda dice: f"'{dice.randint(1000, 9999)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02} {dice.randint(0, 23):02}:{dice.randint(0, 59):02}:01.{dice.randint(0, 999999):06}'",
    "date": lambda dice: f"'{dice.randint(1000, 9999)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}'",
    "time": lambda dice: f"'{dice.randint(-838, 838)}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}.{dice.randint(0, 999999):06}'",
    "varbinary": lambda dice: f"X'{dice.randbytes(dice.randint(0, 9)).hex()}'",
    "blob": lambda dice: f"X'{dice.randbytes(dice.randint(0, 99)).hex()}'",
}  # fmt: skip
