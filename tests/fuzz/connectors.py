"""What connectors write and are configured with: settings, schema histories, DDL, events, logs."""

from __future__ import annotations

import base64
import json
from typing import Any

from airflow_cdc.connectors.canal.capture import captured
from airflow_cdc.connectors.canal.events.packets import flat_texts
from airflow_cdc.connectors.canal.log import state_of
from airflow_cdc.connectors.canal.statements import read_statements as canal_statements
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.converters import read_converter
from airflow_cdc.connectors.debezium.events.frames import frame_of
from airflow_cdc.connectors.debezium.forms import form_of_key, form_of_value
from airflow_cdc.connectors.debezium.history import compare_history, fold_history
from airflow_cdc.connectors.debezium.routing import full_match
from airflow_cdc.connectors.debezium.schema_changes import read_statements
from airflow_cdc.connectors.debezium_engine.config import edited, parse_config
from airflow_cdc.connectors.debezium_engine.log import failure_of
from airflow_cdc.connectors.flink.capture import FlinkCapture, flat
from airflow_cdc.connectors.java_properties import parse, written
from airflow_cdc.core.errors import ConfigError, SchemaError, TransportError, UnreadableEventsError
from airflow_cdc.events.decoder import Decoder, Plan
from airflow_cdc.events.record import RawRecord, Side, Want
from airflow_cdc.sources.mysql.cascades import keys_in
from airflow_cdc.sources.mysql.ddl_clauses import read_statement
from airflow_cdc.sources.mysql.ddl_text import tokens
from airflow_cdc.sources.mysql.grants import parse_grants
from airflow_cdc.sources.mysql.schema import parse_labels
from tests.fuzz.mutate import blobs, json_bytes, objects, settings, texts
from tests.fuzz.parser import Parser
from tests.paths import ROOT
from tests.unit.tables import column, table

DATA = ROOT / "tests" / "data"
CHANGES = json.loads((DATA / "schema-changes.json").read_text())["records"]
CONFIGURATIONS = [
    json.loads(line.rstrip(",\n"))["config"]
    for line in (DATA / "reach" / "configurations.json").read_text().splitlines()
    if '"config"' in line
]
_MESSAGES = json.loads((DATA / "canal-messages.json").read_text())["messages"]
PACKETS = [base64.b64decode(one["value"]) for kind, ones in _MESSAGES.items() if "flat" not in kind for one in ones]
FLAT = [json.loads(base64.b64decode(one["value"])) for one in _MESSAGES["flat"]]
PROPERTIES = (
    "# a comment\ndebezium.source.connector.class=io.debezium.connector.mysql.MySqlConnector\n"
    "name : ef\n\tpath\\ with\\ blanks = a\\\n   b\\u00e9\\t\r\ndebezium.sink.type=kafka\nlast=\\"
)
TABLE = table(
    column("id", "bigint"),
    column("name", "varchar(40)", nullable=True, char_length=40, charset="utf8mb4"),
    column("price", "decimal(10,2)", precision=10, scale=2),
    column("kind", "enum('a','b')", labels=("a", "b")),
    column("at", "datetime(6)"),
    column("doc", "json", nullable=True),
    key=("id",),
)
CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "p", "table.include.list": "shop.t,shop\\.(u|v).*",
    "transforms": "r,u", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter", "transforms.r.regex": "(.*)\\.(.*)",
    "transforms.r.replacement": "$1-${n}x$2", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.u.add.fields": "op,source.ts_ms:at", "decimal.handling.mode": "string", "heartbeat.interval.ms": "5",
    "column.exclude.list": "shop.t.secret", "message.key.columns": "shop.t:id;shop.u:a,b",
    "value.converter": "io.apicurio.registry.utils.converter.AvroConverter", "value.converter.apicurio.registry.url": "http://u:p@r/apis/registry/v2",
}  # fmt: skip
FLINK_OPTIONS = {
    "connector": "mysql-cdc", "database-name": "shop", "table-name": "orders|items", "heartbeat.interval": "30 s", "scan.startup.mode": "initial",
    "debezium.connect.keep.alive.interval.ms": "60000", "debezium.event.deserialization.failure.handling.mode": "fail",
}  # fmt: skip
CANAL = {
    "canal.instance.filter.regex": "shop\\..*,crm\\.t", "canal.instance.filter.black.regex": "mysql\\.slave_.*", "canal.mq.topic": "t",
    "canal.instance.detecting.enable": "true", "canal.instance.detecting.sql": "insert into x values (1)", "canal.mq.flatMessage": "true",
    "canal.instance.detecting.interval.time": "3", "canal.mq.dynamicTopic": ".*\\..*", "canal.mq.partitionHash": ".*\\..*:$pk$",
}  # fmt: skip
EVENT = {
    "before": None,
    "after": {"id": 1, "name": "é", "price": "1.50", "kind": "a", "at": 1_700_000_000_000_000, "doc": '{"a": 1.0}'},
    "source": {
        "db": "shop", "table": "t", "file": "mysql-bin.000003", "pos": 4, "row": 0, "server_id": 1, "gtid": None, "ts_ms": 5,
        "snapshot": "false",
    },
    "op": "c", "ts_ms": 6,
}  # fmt: skip
STATEMENTS = (
    *(one["ddl"] for one in CHANGES[:40] if one.get("ddl")),
    "ALTER TABLE `a``b` ADD COLUMN (x INT DEFAULT 'it''s \\n' COMMENT 'c', y DECIMAL(10,2)), DROP z, ALGORITHM=INSTANT /* c */ -- d",
    "RENAME TABLE a TO b, c.d TO `e`", "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
)  # fmt: skip
GRANTS = (
    "GRANT SELECT, INSERT (`a`, `b`), RELOAD ON *.* TO `cdc`@`%` WITH GRANT OPTION",
    "REVOKE SELECT ON `mysql`.* FROM `cdc`@`%`", "GRANT `role`@`%` TO `cdc`@`%`", "GRANT ALL PRIVILEGES ON `sh\\_op%`.`t` TO `cdc`@`%`",
)  # fmt: skip
SHOW_CREATE = (
    "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  KEY `k` (`id`),\n  CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `o`.`p` (`id`)"
    " ON DELETE CASCADE ON UPDATE SET NULL\n) ENGINE=InnoDB"
)
ENGINE_LOG = (
    "2026-11-28 02:00:00,000 INFO  Starting Debezium\n"
    "2026-11-28 02:00:01,000 ERROR Engine has failed\njava.lang.IllegalStateException: password=hush\n\tat a.b(C.java:1)\nCaused by: x\n"
)
CANAL_LOG = (
    "2026-11-28 02:00:00.000 [destination = d] WARN  c.a.o.c.p.i.m.MysqlEventParser - ---> begin to find start position\n"
    "2026-11-28 02:00:01.000 [destination = d] ERROR c.a.o.c.p.i.m.MysqlEventParser - dump address /1.2.3.4:3306 has an error\n"
    "java.io.IOException: Received error packet: errno = 1236\n\tat a.b(C.java:1)\n"
)


def _from_config(config: dict[str, str]) -> object:
    made = ConnectorSettings.from_config(config)
    made.check_table(TABLE)
    return (
        made.topics(["shop.t", "shop.u"]),
        made.topics_about(["shop.t"]),
        made.carried(TABLE),
        made.healing,
        made.deletes_lost(),
    )


def _decoder() -> Decoder:
    routing = ConnectorSettings.from_config(
        {key: CONFIG[key] for key in ("connector.class", "topic.prefix", "decimal.handling.mode")}
    )
    frame = frame_of(routing, TABLE.full_name)
    return Decoder(Plan(TABLE, frame, routing.values, Want(Side.ROW, Side.ROW)))


DECODER = _decoder()


def _decode(pair: tuple[bytes, bytes]) -> object:
    """Whatever comes is a change, or has the reason why it is none: nothing is raised."""
    try:
        return DECODER.batch([RawRecord(0, 1, *pair)]).to_pylist()
    except ValueError as error:
        raise AssertionError from error


def _history(record: dict[str, Any]) -> object:
    return [compare_history(TABLE, one) for one in fold_history([record]).values()]


def _properties(text: str) -> object:
    read = parse(text)
    assert parse("".join(written(key, value) for key, value in read.items())) == read
    return edited(text, {"name": "x", "new": " \\é😀"}), parse_config(text)


def _grants(text: str) -> object:
    return parse_grants("cdc", text.splitlines()).missing(["shop.t", "sh_op.t"], gtid=True)


def _shown_keys(text: str) -> object:
    return list(keys_in(text, "shop", "t"))


PARSERS = (
    Parser(
        "settings of a connector", _from_config, settings(CONFIG, *CONFIGURATIONS), (ConfigError, SchemaError), turn=60
    ),
    Parser("converter of a connector", lambda config: read_converter(config, "value"), settings(CONFIG)),
    Parser(
        "regular expression of a connector",
        lambda pattern: full_match(pattern, "shop.orders_of_a_long_name_with_letters", ignore_case=True),
        texts("shop\\.(a|b).*", "(?<n>x)\\k<n>", "[a-z]+\\.t", "shop.orders", most=200),
        (ConfigError,),
        turn=60,
    ),
    Parser(
        "options of a Flink source",
        lambda one: FlinkCapture.from_config(flat("j", [one])),
        settings(FLINK_OPTIONS),
        (ConfigError,),
    ),
    Parser(
        "settings of Canal",
        lambda config: captured({**config, "canal.instance.destination": "d"}),
        settings(CANAL),
        (ConfigError,),
    ),
    Parser("schema history", _history, objects(*CHANGES), (TransportError,)),
    Parser(
        "topic of schema changes",
        lambda data: read_statements([RawRecord(0, 1, None, data)], "here"),
        json_bytes(*CHANGES),
        (TransportError, UnreadableEventsError),
    ),
    Parser("DDL", read_statement, texts(*STATEMENTS)),
    Parser("tokens of DDL", tokens, texts(*STATEMENTS), (ValueError,)),
    Parser("labels of an ENUM", parse_labels, texts("enum('a','it''s','b\\\\c')", "set('x,y','')")),
    Parser("SHOW GRANTS", _grants, texts(*GRANTS)),
    Parser("SHOW CREATE TABLE", _shown_keys, texts(SHOW_CREATE)),
    Parser("form of a value", form_of_value, json_bytes(EVENT, {"schema": {}, "payload": EVENT})),
    Parser("form of a key", form_of_key, json_bytes({"id": 1})),
    Parser(
        "event of Debezium in memory",
        _decode,
        json_bytes(EVENT).map(lambda data: (b'{"id": 1}', data))
        | json_bytes({"id": 1}).map(lambda data: (data, json.dumps(EVENT).encode())),
        (ValueError, TypeError, LookupError),
    ),
    Parser("packet of Canal", flat_texts, blobs(*PACKETS), (ValueError,)),
    Parser(
        "DDL in Canal's topic",
        lambda data: canal_statements([RawRecord(0, 1, None, data)], "here"),
        json_bytes(*FLAT) | blobs(*PACKETS),
        (TransportError,),
    ),
    Parser("properties file of Java", _properties, texts(PROPERTIES), (ValueError,)),
    Parser("log of Canal", lambda text: state_of(text.splitlines()), texts(CANAL_LOG)),
    Parser("log of Debezium's engine", lambda text: failure_of(text.splitlines()), texts(ENGINE_LOG)),
)
