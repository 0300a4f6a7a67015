"""`python -m tests.integration.wire_records` writes tests/data/wires anew: records of real connectors in each wire format.

Each file is one connector's: its settings, the records of its tables with their headers, every schema that their ids name,
and what the source itself said of the rows. Nothing of the product is used.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import stack
from stack import connect, fetch, registry, versions
from stack.kafka import quick
from stack.mysql import MySqlServer, MySqlSettings
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import end, wait_until
from stack.registry import AVRO, JSON_SCHEMA, Registry
from tests.integration import every_type
from tests.integration.postgres import test_types as pg
from tests.paths import ROOT

OUT: Final = ROOT / "tests" / "data" / "wires"
SCHEMA: Final = "wires"
SIDES: Final = ("key", "value")
PLUGINS: Final = ("debezium", "debezium-postgres", "registry-converters")
PLAIN: Final = {
    f"{side}.converter{name}": value
    for side in SIDES
    for name, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "true"))
}
ALL_FIELDS: Final = (
    "op,table,ts_ms,source.ts_ms,source.gtid,source.server_id,source.file,source.pos,source.row,source.snapshot"
)
ALL_PG_FIELDS: Final = "op,table,ts_ms,source.ts_ms,source.lsn,source.txId,source.sequence,source.snapshot"
PRECISE: Final = {"decimal.handling.mode": "precise", "bigint.unsigned.handling.mode": "precise"}
# a name that Avro does not allow: that column is left out there
LEGAL: Final = {"column.exclude.list": rf"{SCHEMA}\.every\.sep.*"}
ADJUSTED: Final = {"schema.name.adjustment.mode": "avro"}


def flat(mode: str, **options: str) -> dict[str, str]:
    """ExtractNewRecordState on the source connector."""
    named = {"type": "io.debezium.transforms.ExtractNewRecordState", **options}
    if mode:
        named["delete.tombstone.handling.mode"] = mode
    return {"transforms": "unwrap", **{f"transforms.unwrap.{k.replace('_', '.')}": v for k, v in named.items()}}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One connector: its name is its file's."""

    name: str
    settings: Mapping[str, str]
    tables: Sequence[str] = ("every", "t", "bare")
    forms: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # side → (form, converter)


def both(form: str, kind: str = AVRO) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(SIDES, (form, kind))


_FLAT_TABLES: Final = ("t",)


def wanted(source: str, fields: str) -> Iterator[Wanted]:
    """The connectors of one source."""
    yield Wanted(f"{source}-json", PLAIN | PRECISE)
    yield Wanted(f"{source}-json-string", PLAIN | {"decimal.handling.mode": "string"})
    for form in registry.FORMS:
        yield Wanted(f"{source}-avro-{form}", PRECISE | ADJUSTED | LEGAL, forms=both(form))
    yield Wanted(
        f"{source}-avro-string", {"decimal.handling.mode": "string"} | ADJUSTED | LEGAL, forms=both("confluent")
    )
    renamed = {"field.name.adjustment.mode": "avro"}
    yield Wanted(f"{source}-avro-renamed", PRECISE | ADJUSTED | renamed, tables=("every", "t"), forms=both("confluent"))
    yield Wanted(f"{source}-jsonschema", PRECISE | ADJUSTED, forms=both("headers", JSON_SCHEMA))
    for mode in ("", "drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"):
        yield Wanted(f"{source}-flat-{mode or 'default'}", PLAIN | flat(mode), tables=_FLAT_TABLES)
    for name, old in (
        ("none", "false"),
        ("drop", "true"),
        ("drop-kept", "false"),
        ("rewrite", "false"),
        ("rewrite-dropped", "true"),
    ):
        legacy = flat("", delete_handling_mode=name.partition("-")[0], drop_tombstones=old)
        yield Wanted(f"{source}-flat-old-{name}", PLAIN | legacy, tables=_FLAT_TABLES)
    yield Wanted(f"{source}-flat-fields", PLAIN | flat("rewrite", add_fields=fields), tables=("t", "bare"))
    nulls = flat("rewrite", add_fields=fields, replace_null_with_default="false")
    yield Wanted(f"{source}-flat-nulls", PLAIN | nulls, tables=_FLAT_TABLES)
    unquoted = {name: "false" if name.endswith("enable") else value for name, value in PLAIN.items()}
    yield Wanted(f"{source}-flat-bare", unquoted | flat(""), tables=_FLAT_TABLES)
    yield Wanted(
        f"{source}-flat-headers", PLAIN | flat("rewrite-with-tombstone", add_headers=fields), tables=("t", "bare")
    )
    yield Wanted(
        f"{source}-flat-avro",
        PRECISE | ADJUSTED | LEGAL | flat("rewrite", add_fields=fields, add_fields_prefix="x_"),
        tables=("every", "t"),
        forms=both("confluent"),
    )


# the last key as JSON, as Avro's long and as Protobuf's
_MARKS: Final = (b"999", b"\xce\x0f", b"\xe7\x07")
# what happens to t, in this order: a key with a NULL beside it, changes, DDL between them, and a key that changes
STEPS: Final = (
    "INSERT INTO {t} (id, v, n) VALUES (1, 'a', 1.10), (2, NULL, -0.01), (3, 'c', NULL)",
    "UPDATE {t} SET v = 'b' WHERE id = 2",
    "DELETE FROM {t} WHERE id = 3",
    "ALTER TABLE {t} ADD COLUMN more INT DEFAULT 7",
    "INSERT INTO {t} (id, v, n, more) VALUES (4, 'd', 4, NULL)",
    "ALTER TABLE {t} {widen}",
    "INSERT INTO {t} (id, v, n, more) VALUES (5, 'e', 1234567890.12, 5)",
    "ALTER TABLE {t} DROP COLUMN v",
    "UPDATE {t} SET more = 8 WHERE id = 1",
    "UPDATE {t} SET id = 40 WHERE id = 4",
    "INSERT INTO {bare} VALUES (1, 'x'), (1, 'x')",
    "UPDATE {bare} SET v = 'y'",
    "DELETE FROM {bare}",
)
CREATES: Final = (
    "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(10), n DECIMAL(5,2))",
    "CREATE TABLE {bare} (n INT, v VARCHAR(10))",
)
_WIDEN: Final = {"mysql": "MODIFY n DECIMAL(12,2)", "postgres": "ALTER COLUMN n TYPE DECIMAL(12,2)"}


def filled(statements: Sequence[str], source: str) -> list[str]:
    names = {name: f"{SCHEMA}.{name}" for name in ("t", "bare")}
    return [one.format(**names, widen=_WIDEN[source]) for one in statements]


def every_postgres() -> tuple[list[str], list[str]]:
    """A table with a column for each type of PostgreSQL, and its rows: those values that a connector can send."""
    cases = [
        (kind, [text for text, _ in values if not (kind == "numeric" and "'" in text)]) for kind, _, values in pg.CASES
    ]
    names = [f"c{number}" for number in range(len(cases))]
    columns = ", ".join(
        f"{name} {kind}{' NOT NULL' if 'positive' in kind else ''}"
        for name, (kind, _) in zip(names, cases, strict=True)
    )
    rows = []
    for number in range(max(len(texts) for _, texts in cases) + 1):
        texts = [t[number] if number < len(t) else t[0] if "positive" in kind else "NULL" for kind, t in cases]
        rows.append(f"INSERT INTO {SCHEMA}.every VALUES ({number}, {', '.join(texts)})")
    creates = [*pg.SETUP, f"CREATE TABLE {SCHEMA}.every (id int PRIMARY KEY, {columns})"]
    return creates, rows


Follows = Mapping[str, Sequence[Wanted]]  # source → its connectors


class Recording:
    """One run: the servers, and what each connector sent."""

    def __init__(
        self, servers: stack.Stack, worker: connect.ConnectWorker, schemas: Registry, follows: Follows | None = None
    ) -> None:
        self.servers, self.worker, self.schemas = servers, worker, schemas
        self.follows = follows or {
            "mysql": list(wanted("mysql", ALL_FIELDS)),
            "postgres": list(wanted("postgres", ALL_PG_FIELDS)),
        }
        assert servers.kafka is not None
        self.kafka = servers.kafka.bootstrap

    def mysql(self) -> None:
        server = self.servers.mysql["mysql"]
        run = _mysql_runner(server)
        run(f"CREATE DATABASE {SCHEMA}", every_type.create_sql(f"{SCHEMA}.every"), *filled(CREATES, "mysql"))
        follows = self.follows["mysql"]
        for number, one in enumerate(follows):
            self.follow(one, self._mysql_config(server, one, number))
        self.wait_streaming(follows)
        run(
            *every_type.insert_sql(f"{SCHEMA}.every", real_days=True),
            *filled(STEPS, "mysql"),
            f"INSERT INTO {SCHEMA}.t (id) VALUES (999)",
        )
        rows = {name: _mysql_rows(server, name, order) for name, order in (("every", "id"), ("t", "id"))}
        self.keep("mysql", server.version, follows, rows)

    def postgres(self) -> None:
        server = self.servers.postgres["postgres"]
        creates, inserts = every_postgres()
        server.execute(f"CREATE SCHEMA {SCHEMA}", *creates, *filled(CREATES, "postgres"))
        server.execute(
            f"ALTER TABLE {SCHEMA}.bare REPLICA IDENTITY FULL",
            *(f"ALTER TABLE {SCHEMA}.{name} REPLICA IDENTITY FULL" for name in ("t", "every")),
            f"GRANT USAGE ON SCHEMA {SCHEMA} TO debezium",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO debezium",
        )
        follows = self.follows["postgres"]
        for one in follows:
            slot = one.name.replace("-", "_")
            server.execute(
                f"CREATE PUBLICATION {slot} FOR TABLE {', '.join(f'{SCHEMA}.{table}' for table in one.tables)}"
            )
            self.follow(one, self._postgres_config(server, one, slot))
        slots = [one.name.replace("-", "_") for one in follows]
        for slot in slots:
            wait_until(lambda slot=slot: _is_active(server, slot), timeout=180, what=f"slot {slot} in use")  # type: ignore[misc]
        self.wait_streaming(follows)
        server.execute(*inserts, *filled(STEPS, "postgres"), f"INSERT INTO {SCHEMA}.t (id) VALUES (999)")
        rows = {name: _postgres_rows(server, name) for name in ("every", "t")}
        self.keep("postgres", server.version, follows, rows)

    def follow(self, one: Wanted, config: Mapping[str, str]) -> None:
        converters: dict[str, str] = {}
        for side, (form, kind) in one.forms.items():
            if "confluent" in kind:
                converters |= {
                    f"{side}.converter": kind,
                    f"{side}.converter.schema.registry.url": self.schemas.confluent,
                }
            else:
                converters |= self.schemas.converter(side, form, kind)
        self.worker.call("PUT", f"/connectors/{one.name}/config", {**config, **one.settings, **converters})

    def _mysql_config(self, server: MySqlServer, one: Wanted, number: int) -> dict[str, str]:
        return {
            "connector.class": connect.DEBEZIUM_CLASS,
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.server.id": str(71000 + number),
            "database.include.list": SCHEMA,
            "table.include.list": ",".join(f"{SCHEMA}.{table}" for table in one.tables),
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
            "topic.prefix": one.name,
            "snapshot.mode": "no_data",
            "schema.history.internal.kafka.bootstrap.servers": self.kafka,
            "schema.history.internal.kafka.topic": f"history-{one.name}",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "value.converter.replace.null.with.default": "false",
            "enable.time.adjuster": "false",
        }

    def _postgres_config(self, server: PostgresServer, one: Wanted, slot: str) -> dict[str, str]:
        return {
            "connector.class": connect.POSTGRES_CLASS,
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "topic.prefix": one.name,
            "slot.name": slot,
            "publication.name": slot,
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "no_data",
            "heartbeat.interval.ms": "500",
            "interval.handling.mode": "string",
            "include.unknown.datatypes": "false",
            "value.converter.replace.null.with.default": "false",
            "table.include.list": ",".join(f"{SCHEMA}.{table}" for table in one.tables),
        }

    def wait_streaming(self, follows: Sequence[Wanted]) -> None:
        for one in follows:
            wait_until(lambda name=one.name: self._streams(name), timeout=180, what=f"{one.name} to stream")  # type: ignore[misc]

    def _streams(self, name: str) -> bool | None:
        try:
            status = self.worker.call("GET", f"/connectors/{name}/status")
            for task in status["tasks"]:
                if task["state"] == "FAILED":
                    causes = [line for line in task["trace"].splitlines() if line.startswith("Caused by")]
                    raise AssertionError(f"{name}: {causes or task['trace'][:2000]}")
            return True if self.worker.call("GET", f"/connectors/{name}/offsets")["offsets"] else None
        except stack.StackError:
            return None

    def keep(self, source: str, version: str, follows: Sequence[Wanted], rows: Mapping[str, Any]) -> None:
        """Write each connector's file: its records up to the mark, row 999 of t."""
        for one in follows:
            records = {}
            wait_until(lambda one=one: self._marked(one), timeout=120, what=f"{one.name} to send its last row")  # type: ignore[misc]
            for table in one.tables:
                records[table] = list(self._records(f"{one.name}.{SCHEMA}.{table}"))
            config = self.worker.call("GET", f"/connectors/{one.name}/config")
            self.worker.call("DELETE", f"/connectors/{one.name}")
            _write(
                one.name, self.content(one, source=source, version=version, config=config, records=records, rows=rows)
            )

    def content(
        self,
        one: Wanted,
        *,
        source: str,
        version: str,
        config: Mapping[str, str],
        records: Mapping[str, Any],
        rows: Mapping[str, Any],
    ) -> dict[str, Any]:
        """What a connector's file holds."""
        return {
            "versions": {
                source: version,
                "debezium": versions.DEBEZIUM,
                "kafka": versions.KAFKA,
                **({"apicurio": versions.APICURIO} if one.forms else {}),
            },
            "settings": _without_secrets(config),
            "schemas": self._schemas(one, records),
            "records": records,
            "rows": {table: rows[table] for table in one.tables if table in rows},
        }

    def _marked(self, one: Wanted) -> bool | None:
        status = self.worker.call("GET", f"/connectors/{one.name}/status")
        for task in status["tasks"]:
            if task["state"] == "FAILED":
                print(f"{one.name} FAILED: {task['trace'][:3000]}")
                return True
        *_, last = (None, *self._records(f"{one.name}.{SCHEMA}.t"))
        return True if last and any(mark in base64.b64decode(last["key"]) for mark in _MARKS) else None

    def _records(self, topic: str) -> Iterator[dict[str, Any]]:
        from kafka import KafkaConsumer, TopicPartition

        with closing(KafkaConsumer(bootstrap_servers=self.kafka, auto_offset_reset="earliest")) as consumer:
            if not consumer.partitions_for_topic(topic):
                return
            part = TopicPartition(topic, 0)
            consumer.assign([part])
            last = consumer.end_offsets([part])[part]
            while consumer.position(part) < last:
                for batch in consumer.poll(timeout_ms=500).values():
                    for record in batch:
                        yield {
                            "offset": record.offset,
                            "key": _text(record.key),
                            "value": _text(record.value),
                            "headers": [[name, _text(data)] for name, data in record.headers],
                        }

    def _schemas(self, one: Wanted, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
        """The kind of an id and the id, as `contentId:7` → what the registry says of it."""
        if not one.forms:
            return {}
        (form, _), *_ = one.forms.values()
        place = {
            "confluent": f"{self.schemas.confluent}/schemas/ids/",
            "apicurio": f"{self.schemas.url}/ids/globalIds/",
        }
        place["headers"] = place["apicurio"]
        ids = sorted({number for own in records.values() for record in own for number in _ids(form, record)})
        return {f"{'contentId' if form == 'confluent' else 'globalId'}:{n}": _get(place[form] + str(n)) for n in ids}


def _ids(form: str, record: Mapping[str, Any]) -> Iterator[int]:
    if form == "headers":
        for name, data in record["headers"]:
            if name.endswith("globalId"):
                yield int.from_bytes(base64.b64decode(data), "big")
        return
    size = 4 if form == "confluent" else 8
    for side in SIDES:
        data = base64.b64decode(record[side] or "")
        if data[:1] == b"\0":
            yield int.from_bytes(data[1 : 1 + size], "big")


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return {"error": error.code}


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _is_active(server: PostgresServer, slot: str) -> bool | None:
    return bool(server.execute(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}' AND active")) or None


def _mysql_runner(server: MySqlServer) -> Any:
    def run(*statements: str) -> None:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [every_type.LOAD_MODE])
            for statement in statements:
                cursor.execute(statement)
                connection.commit()

    return run


def _mysql_rows(server: MySqlServer, name: str, order: str) -> list[dict[str, Any]]:
    """Each row as MySQL itself writes its values, in hexadecimal digits: text as UTF-8, and what is bytes as they are."""
    columns = server.execute(
        f"SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = '{SCHEMA}'"
        f" AND table_name = '{name}' ORDER BY ordinal_position"
    )
    parts = [(str(c), _mysql_text(str(c).replace("`", "``"), str(kind))) for c, kind in columns]
    rows = server.execute(
        "SET time_zone = '+00:00'",
        f"SELECT {', '.join(sql for _, sql in parts)} FROM {SCHEMA}.{name} ORDER BY {order}",
    )
    return [dict(zip((c for c, _ in parts), row, strict=True)) for row in rows]


def _mysql_text(column: str, kind: str) -> str:
    if (
        kind in {"binary", "varbinary", "blob", "longblob", "mediumblob", "tinyblob"}
        or "geo" in kind
        or kind in {"point", "polygon"}
    ):
        return f"LOWER(HEX(`{column}`))"
    if kind == "bit":
        return f"CAST(`{column}` + 0 AS CHAR)"
    if kind == "float":
        return f"CAST(`{column}` + 0e0 AS CHAR)"
    return f"LOWER(HEX(CONVERT(CAST(`{column}` AS CHAR CHARACTER SET utf8mb4) USING utf8mb4)))"


def _postgres_rows(server: PostgresServer, name: str) -> list[dict[str, Any]]:
    """Each row as PostgreSQL itself writes its values."""
    columns = server.execute(
        f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{SCHEMA}' AND table_name = '{name}'"
        " ORDER BY ordinal_position"
    )
    names = [str(c) for (c,) in columns]
    texts = ", ".join(f"{c}::text" for c in names)
    rows = server.execute(
        "SET timezone = 'UTC'", "SET extra_float_digits = 3", f"SELECT {texts} FROM {SCHEMA}.{name} ORDER BY id"
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _without_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """The settings less what differs from run to run: addresses, ports, passwords."""
    hidden = re.compile(r"database\.(hostname|port|user|password)|.*(bootstrap\.servers|registry\.url)")
    return {name: "***" if hidden.fullmatch(name) else value for name, value in sorted(config.items())}


def _write(name: str, content: Mapping[str, Any]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    data = json.dumps(content, ensure_ascii=False, indent=1).encode()
    (OUT / f"{name}.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{name}: { ({t: len(r) for t, r in content['records'].items()}) }, {len(content['schemas'])} schemas")


def main(follows: Follows | None = None, plugins: str = "") -> None:
    """Start the servers, record, and end them. `plugins`: a folder of further ones."""
    fetch.fetch_all(["kafka", *PLUGINS])
    paths = [*(str(fetch.fetch(name).parent) for name in PLUGINS), *([plugins] if plugins else [])]
    with tempfile.TemporaryDirectory(prefix="cdc-wires-") as tmp:
        folder = Path(tmp) / "s"
        with stack.start(
            folder,
            ("kafka", "mysql", "postgres"),
            mysql_settings=(MySqlSettings(),),
            postgres_settings=(PostgresSettings(extra={"max_wal_senders": "40"}),),
        ) as servers:
            assert servers.kafka is not None
            schemas = registry.start_registry(folder / "registry", servers.logs)
            worker = connect.start_connect(
                folder,
                servers.logs,
                servers.kafka.bootstrap,
                more={**registry.WORKER, "plugin.path": ",".join(paths)},
                plugins=PLUGINS,
                java=quick("1800m"),
            )
            try:
                connect.wait_ready(worker)
                recording = Recording(servers, worker, schemas, follows)
                recording.mysql()
                recording.postgres()
            finally:
                end(worker.child)
                end(schemas.child)


if __name__ == "__main__":
    main()
