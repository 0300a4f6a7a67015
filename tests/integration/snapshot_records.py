"""`python -m tests.integration.snapshot_records` writes tests/data/wires/*-snapshot-*: what connectors write of rows in their own snapshots.

Of one kind of source, with its name behind the command.

The tables are those of wire_records, filled before the connectors begin. Beside the records are the tables' definitions, as
the product reads them. A streamed change of `t` comes behind the snapshot.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import stack
from airflow_cdc.decisions.apply.schema_change import dump_definition
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.sources.postgres.client import PostgresSource
from stack import connect, fetch, registry
from stack.kafka import quick
from stack.mysql import MySqlSettings
from stack.process import end
from tests.integration import every_type, wire_records
from tests.integration.postgres.support import endpoint
from tests.integration.wire_records import PLAIN, PRECISE, SCHEMA, Recording, Wanted, both, filled, flat

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

_BARE: Final = {name: "false" if name.endswith("enable") else value for name, value in PLAIN.items()}
_ADJUSTED: Final = {"schema.name.adjustment.mode": "avro"}
_AVRO: Final = {"schema.name.adjustment.mode": "avro", "column.exclude.list": rf"{SCHEMA}\.every\.sep.*"}
CONNECTORS: Final = (
    Wanted("mysql-snapshot-wrapped", PLAIN | PRECISE, tables=("every", "t")),
    Wanted("mysql-snapshot-bare", _BARE | {"decimal.handling.mode": "string"}, tables=("every", "t")),
    Wanted("mysql-snapshot-registered", PRECISE | _AVRO, tables=("every", "t"), forms=both("confluent")),
    Wanted("mysql-snapshot-unwrapped", PLAIN | flat("rewrite", add_fields=wire_records.ALL_FIELDS), tables=("t",)),
)
# a connector fails at a numeric NaN that it has to send precisely
_NO_NAN: Final = {"column.exclude.list": rf"{SCHEMA}\.every\.nan"}
_OTHER_MODES: Final = {
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",
    "binary.handling.mode": "base64",
}
POSTGRES: Final = (
    Wanted("postgres-snapshot-wrapped", PLAIN | _NO_NAN, tables=("every", "t")),
    Wanted("postgres-snapshot-bare", _BARE | _OTHER_MODES, tables=("every", "t")),
    Wanted("postgres-snapshot-registered", _ADJUSTED | _NO_NAN, tables=("every", "t"), forms=both("confluent")),
    Wanted(
        "postgres-snapshot-unwrapped", PLAIN | flat("rewrite", add_fields=wire_records.ALL_PG_FIELDS), tables=("t",)
    ),
)
# columns beside those of every_postgres: declared precisions, and values that one mode alone can send
MORE: Final = (
    ("nan", "numeric", ("'NaN'", "'Infinity'", "'-Infinity'", "-0.00", "1e-30")),
    ("tz0", "timestamptz(0)", ("'2026-03-29 02:30:00+02'", "'0001-01-01 00:00:00+00'")),
    (
        "tz3",
        "timestamptz(3)",
        ("'2026-03-29 02:30:00.5+02'", "'1582-10-10 00:00:00+00'", "'9999-12-31 23:59:59.999+00'"),
    ),
    (
        "tz6",
        "timestamptz",
        ("'2026-03-29 02:30:00.5+02'", "'9999-12-31 23:59:59.999999+00'", "'1582-10-10 00:00:00+00'"),
    ),
    ("ts0", "timestamp(0)", ("'2026-03-29 02:30:00'", "'0001-01-01'")),
    ("ts3", "timestamp(3)", ("'2026-03-29 02:30:00.5'", "'1582-10-10'", "'9999-12-31 23:59:59.999'")),
    ("ts5", "timestamp(5)", ("'1969-12-31 23:59:59.99999'",)),
    ("t0", "time(0)", ("'23:59:59'", "'24:00'")),
    ("t6", "time(6)", ("'00:00:00.000001'",)),
    ("bp", "bpchar", ("'ab  '",)),
    ("padded", "char(3)", ("'😀'", "'abc'")),
    ("h", "public.hstore", ("''", "'b=>1, a=>NULL'", '\'"ü\\""=>"x"\'')),
    ("longs", "bigint[]", ("'{9223372036854775807,NULL}'", "'{}'")),
    ("words", "varchar(5)[]", ("ARRAY['a\"b', '']",)),
    ("b7", "bit(7)", ("B'0000000'", "B'1000000'")),
    ("r8", "int8range", ("'[1,5]'", "'(,9)'")),
    ("rn", "numrange", ("'[1.10,5]'", "'empty'")),
    ("rd", "daterange", ("'[2026-01-01,2026-01-31]'", "'(,)'")),
    ("rt", "tsrange", ("'[2026-01-01 00:00,2026-01-02 03:04:05.06)'",)),
    ("v", "interval", ("'10000000 years'", "'-1 days 24:00:00.1'", "'100:00:00'")),
    ("u", "uuid", ("'00000000-0000-0000-0000-000000000000'",)),
    ("blob", "bytea", ("'\\x00'", "'\\x0001'", "'\\x000102'")),
    ("f", "double precision", ("-1e23", "1e7", "0.001", "123456789.125")),
    ("g", "real", ("16777216", "3.4028235e38", "1e10")),
    ("c", "money", ("'-0.01'", "'12.34'")),
    ("wide", "numeric(38,0)", ("1e37", "-0")),
)
ROWS: Final = "INSERT INTO {t} (id, v, n) VALUES (1, 'a', 1.10), (2, NULL, -0.01), (3, 'c', NULL)"


def _with_days(statement: str) -> str:
    """Without days that are none: a snapshot of Debezium's ends at one in a column that is NOT NULL."""
    for literal in every_type._INVALID:
        statement = statement.replace(literal, "'2020-03-01'")
    return statement


def every_postgres() -> tuple[list[str], list[str]]:
    """The table of wire_records with MORE columns, and its rows."""
    creates, rows = wire_records.every_postgres()
    more = ", ".join(f"{name} {kind}" for name, kind, _ in MORE)
    own = []
    for number, row in enumerate(rows):
        values = ", ".join(texts[number] if number < len(texts) else "NULL" for _, _, texts in MORE)
        own.append(row.removesuffix(")") + f", {values})")
    return [*creates[:-1], creates[-1].removesuffix(")") + f", {more})"], own


class Snapshots(Recording):
    """Connectors that begin with a snapshot of tables that are filled already."""

    definitions: dict[str, str]

    def postgres(self) -> None:
        server = self.servers.postgres["postgres"]
        creates, inserts = every_postgres()
        names = [f"{SCHEMA}.every", f"{SCHEMA}.t"]
        slots = {one.name: one.name.replace("-", "_") for one in POSTGRES}
        server.execute(f"CREATE SCHEMA {SCHEMA}", *creates, *filled(wire_records.CREATES[:1], "postgres"))
        server.execute(
            *inserts,
            *filled([ROWS], "postgres"),
            f"GRANT USAGE ON SCHEMA {SCHEMA} TO cdc, debezium",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO cdc, debezium",
            *(
                f"CREATE PUBLICATION {slots[one.name]} FOR TABLE {', '.join(f'{SCHEMA}.{t}' for t in one.tables)}"
                for one in POSTGRES
            ),
        )
        self._define(PostgresSource(endpoint(server)).definitions(names))
        for one in POSTGRES:
            config = self._postgres_config(server, one, slots[one.name])
            self.follow(one, {**config, "snapshot.mode": "initial"})
        self.wait_streaming(POSTGRES)
        server.execute(f"INSERT INTO {SCHEMA}.t (id) VALUES (999)")
        self.keep("postgres", server.version, POSTGRES, {})

    def _define(self, definitions: Mapping[str, Table]) -> None:
        self.definitions = {name.partition(".")[2]: dump_definition(table) for name, table in definitions.items()}

    def mysql(self) -> None:
        server = self.servers.mysql["mysql"]
        run = wire_records._mysql_runner(server)
        run(
            f"CREATE DATABASE {SCHEMA}",
            every_type.create_sql(f"{SCHEMA}.every"),
            *filled(wire_records.CREATES[:1], "mysql"),
            *map(_with_days, every_type.insert_sql(f"{SCHEMA}.every", real_days=True)),
            *filled([ROWS], "mysql"),
        )
        source = MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))
        names = [f"{SCHEMA}.every", f"{SCHEMA}.t"]
        self._define(source.definitions(names))
        for number, one in enumerate(CONNECTORS):
            config = self._mysql_config(server, one, number)
            self.follow(one, {**config, "snapshot.mode": "initial"})
        self.wait_streaming(CONNECTORS)
        run(f"INSERT INTO {SCHEMA}.t (id) VALUES (999)")
        self.keep("mysql", server.version, CONNECTORS, {})

    def content(self, one: Wanted, **parts: Any) -> dict[str, Any]:
        return {**super().content(one, **parts), "definitions": self.definitions}


def main(kinds: Sequence[str]) -> None:
    """Start the servers, record, and end them."""
    plugins = ("debezium", "debezium-postgres", "registry-converters")
    fetch.fetch_all(["kafka", *plugins])
    with tempfile.TemporaryDirectory(prefix="cdc-wires-") as tmp:
        folder = Path(tmp) / "s"
        with stack.start(folder, ("kafka", *kinds), mysql_settings=(MySqlSettings(),)) as servers:
            assert servers.kafka is not None
            schemas = registry.start_registry(folder / "registry", servers.logs)
            worker = connect.start_connect(
                folder,
                servers.logs,
                servers.kafka.bootstrap,
                more=registry.WORKER,
                plugins=plugins,
                java=quick("1000m"),
            )
            try:
                connect.wait_ready(worker)
                for kind in kinds:
                    getattr(Snapshots(servers, worker, schemas), kind)()
            finally:
                end(worker.child)
                end(schemas.child)


if __name__ == "__main__":
    main(sys.argv[1:] or ("mysql", "postgres"))
