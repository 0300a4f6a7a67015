"""`python -m tests.integration.snapshot_records` writes tests/data/wires/mysql-snapshot-*: what connectors write of rows in their own snapshots.

The tables are those of wire_records, filled before the connectors begin. Beside the records are the tables' definitions, as
the product reads them. A streamed change of `t` comes behind the snapshot.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import stack
from airflow_cdc.decisions.apply.schema_change import dump_definition
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from stack import connect, fetch, registry
from stack.kafka import quick
from stack.mysql import MySqlSettings
from stack.process import end
from tests.integration import every_type, wire_records
from tests.integration.wire_records import PLAIN, PRECISE, SCHEMA, Recording, Wanted, both, filled, flat

_BARE: Final = {name: "false" if name.endswith("enable") else value for name, value in PLAIN.items()}
_AVRO: Final = {"schema.name.adjustment.mode": "avro", "column.exclude.list": rf"{SCHEMA}\.every\.sep.*"}
CONNECTORS: Final = (
    Wanted("mysql-snapshot-wrapped", PLAIN | PRECISE, tables=("every", "t")),
    Wanted("mysql-snapshot-bare", _BARE | {"decimal.handling.mode": "string"}, tables=("every", "t")),
    Wanted("mysql-snapshot-registered", PRECISE | _AVRO, tables=("every", "t"), forms=both("confluent")),
    Wanted("mysql-snapshot-unwrapped", PLAIN | flat("rewrite", add_fields=wire_records.ALL_FIELDS), tables=("t",)),
)
ROWS: Final = "INSERT INTO {t} (id, v, n) VALUES (1, 'a', 1.10), (2, NULL, -0.01), (3, 'c', NULL)"


def _with_days(statement: str) -> str:
    """Without days that are none: a snapshot of Debezium's ends at one in a column that is NOT NULL."""
    for literal in every_type._INVALID:
        statement = statement.replace(literal, "'2020-03-01'")
    return statement


class Snapshots(Recording):
    """Connectors that begin with a snapshot of tables that are filled already."""

    definitions: dict[str, str]

    def record(self) -> None:
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
        self.definitions = {
            name.partition(".")[2]: dump_definition(table) for name, table in source.definitions(names).items()
        }
        for number, one in enumerate(CONNECTORS):
            config = self._mysql_config(server, one, number)
            self.follow(one, {**config, "snapshot.mode": "initial"})
        self.wait_streaming(CONNECTORS)
        run(f"INSERT INTO {SCHEMA}.t (id) VALUES (999)")
        self.keep("mysql", server.version, CONNECTORS, {})

    def content(self, one: Wanted, **parts: Any) -> dict[str, Any]:
        return {**super().content(one, **parts), "definitions": self.definitions}


def main() -> None:
    """Start the servers, record, and end them."""
    fetch.fetch_all(["kafka", "debezium", "registry-converters"])
    with tempfile.TemporaryDirectory(prefix="cdc-wires-") as tmp:
        folder = Path(tmp) / "s"
        with stack.start(folder, ("kafka", "mysql"), mysql_settings=(MySqlSettings(),)) as servers:
            assert servers.kafka is not None
            schemas = registry.start_registry(folder / "registry", servers.logs)
            worker = connect.start_connect(
                folder,
                servers.logs,
                servers.kafka.bootstrap,
                more=registry.WORKER,
                plugins=("debezium", "registry-converters"),
                java=quick("1000m"),
            )
            try:
                connect.wait_ready(worker)
                Snapshots(servers, worker, schemas).record()
            finally:
                end(worker.child)
                end(schemas.child)


if __name__ == "__main__":
    main()
