"""How records are written is told by their bytes: what a worker's converter does, which no interface shows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.config_rules import DebeziumConfigRules
from airflow_cdc.connectors.debezium.forms import form_of_key, form_of_value
from airflow_cdc.connectors.debezium.schema_changes import read_statements
from airflow_cdc.connectors.debezium.written import written
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import UnreadableEventsError
from airflow_cdc.core.topics import NewestRecord
from airflow_cdc.events.record import SchemaId
from airflow_cdc.events.wire.ids import CONTENT_ID

RULES = DebeziumConfigRules()
JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKERS = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "shop",
    "schema.history.internal.kafka.topic": "history",
}
NAMED = {**WORKERS, "key.converter": JSON, "value.converter": JSON}
EVENT = {"before": None, "after": {"id": 1}, "source": {"file": "f", "pos": 4}, "op": "c", "ts_ms": 1}
KEY = b'{"id":1}'
TEXT = b"Struct{after=Struct{id=1},source=Struct{version=3.6.1.Final},op=c}"


def blocked(value: object) -> bytes:
    return json.dumps({"schema": {"type": "struct"}, "payload": value}).encode()


def plain(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("value", "headers", "what", "is_json", "is_followed"),
    [
        (plain(EVENT), (), "a change event as JSON", True, True),
        (blocked(EVENT), (), "a change event as JSON, in a schema block", True, True),
        (plain(EVENT), ("__debezium.context.task",), "a change event as JSON", True, True),
        (plain({"ddl": "DROP TABLE t", "databaseName": "shop"}), (), "a schema change as JSON", True, True),
        (plain({"id": 1, "__deleted": "false"}), (), "a row without its envelope", True, False),
        (b"null", (), "JSON null, as of a flattened delete", True, False),
        (blocked(None), (), "JSON null, as of a flattened delete", True, False),
        (b"7", (), "JSON that is no object", True, False),
        (plain({"specversion": "1.0", "data": EVENT}), (), "a CloudEvent", True, False),
        (b"\0\0\0\0\x07\x02\x02a", (), "a magic byte and a schema id", False, False),
        (b"\x02\x02a\xff", ("apicurio.value.contentId",), "a schema id in its headers", False, False),
        (b"\x02\x02a\xff", ("__value_schema_id",), "a schema id in its headers", False, False),
        (b"\x02\x02a\xff", ("__key_schema_id",), "bytes that are no text", False, False),
        (TEXT, (), "text as of Connect's StringConverter", False, False),
        (b"id=1", (), "text that is not JSON", False, False),
        (b"\x02\xff", (), "bytes that are no text", False, False),
        (b"[" * 100_000, (), "text that is not JSON", False, False),
    ],
)
def test_a_value_says_what_wrote_it(
    value: bytes, headers: Sequence[str], what: str, is_json: bool, is_followed: bool
) -> None:
    form = form_of_value(value, headers)
    assert form.what.startswith(what)
    assert (form.is_json, form.is_followed) == (is_json, is_followed)


@pytest.mark.parametrize(
    ("key", "what", "is_followed"),
    [
        (KEY, "JSON", True),
        (blocked({"id": 1}), "JSON", True),
        (b"1", "JSON that is no object", False),
        (b"Struct{id=1}", "text as of Connect's StringConverter", False),
        (b"\0\0\0\0\x03\x02", "a magic byte and a schema id", False),
    ],
)
def test_a_key_says_what_wrote_it(key: bytes, what: str, is_followed: bool) -> None:
    form = form_of_key(key)
    assert form.what.startswith(what)
    assert form.is_followed == is_followed


def looked(config: Mapping[str, str], records: Mapping[str, NewestRecord]) -> list[Check]:
    """What a doctor says of the topics of shop.a and shop.b with these records: topic without its prefix → record."""
    asked: list[str] = []
    settings = ConnectorSettings.from_config(config)

    def newest(names: Sequence[str]) -> Mapping[str, NewestRecord]:
        asked.extend(names)
        return {name: records[name] for name in names if name in records}

    checks = list(written(settings, "shop", ["shop.a", "shop.b"], newest))
    assert asked == ["shop.shop.a", "shop.shop.b", "shop", "__debezium-heartbeat.shop"]
    return checks


DDL = NewestRecord(plain({"databaseName": "shop"}), plain({"ddl": "CREATE TABLE t (id INT)"}), at_ms=1)
GOOD = NewestRecord(KEY, plain(EVENT), at_ms=2)
BEAT = NewestRecord(plain({"serverName": "shop"}), plain({"ts_ms": 9}), at_ms=9)
STRUCT = NewestRecord(b"Struct{id=1}", TEXT, at_ms=5)
STRUCT_BEAT = NewestRecord(b"Struct{serverName=shop}", b"Struct{ts_ms=9}", at_ms=9)


def states(checks: Sequence[Check]) -> dict[str, str]:
    return {topic: one.state for one in checks for topic in one.found.rpartition(": ")[2].split(", ")}


def test_inv_41_a_workers_converter_is_seen_in_the_records() -> None:
    good = looked(WORKERS, {"shop.shop.a": GOOD, "shop.shop.b": GOOD, "shop": DDL})
    assert [(one.state, one.found) for one in good] == [
        ("ok", "a change event as JSON: shop.shop.a, shop.shop.b"),
        ("ok", "a schema change as JSON: shop"),
    ]
    bad = looked(WORKERS, {"shop.shop.a": STRUCT, "shop.shop.b": STRUCT, "shop": STRUCT})
    assert [one.state for one in bad] == ["bad"]
    assert "StringConverter" in bad[0].found
    assert f"Set key.converter={JSON}" in bad[0].todo
    assert f"value.converter={JSON}" in bad[0].todo


def test_inv_41_a_topic_without_records_is_unknown_and_said_so() -> None:
    checks = looked(WORKERS, {})
    assert [one.state for one in checks] == ["unknown"]
    assert "first apply" in checks[0].todo


def test_a_topic_without_records_is_judged_by_the_connectors_other_records() -> None:
    assert set(states(looked(WORKERS, {"__debezium-heartbeat.shop": BEAT})).values()) == {"ok"}
    bad = looked(WORKERS, {"__debezium-heartbeat.shop": STRUCT_BEAT})
    assert [one.state for one in bad] == ["bad"]
    assert "StringConverter" in bad[0].found


def test_a_connector_that_names_json_itself_needs_no_record() -> None:
    assert [one.state for one in looked(NAMED, {})] == ["ok"]


def test_one_side_alone_is_named() -> None:
    half = NewestRecord(b"Struct{id=1}", plain(EVENT))
    (checks,) = [one for one in looked(WORKERS, {"shop.shop.a": half}) if "shop.shop.a" in one.found]
    assert "the key is text" in checks.found
    assert f"Set key.converter={JSON}" in checks.todo
    assert "value.converter" not in checks.todo


@pytest.mark.parametrize(
    ("config", "records"),
    [
        (NAMED, {"shop.shop.a": STRUCT}),
        (WORKERS, {"shop.shop.a": STRUCT, "__debezium-heartbeat.shop": BEAT}),
        (WORKERS, {"shop.shop.a": NewestRecord(KEY, plain({"id": 1})), "__debezium-heartbeat.shop": BEAT}),
    ],
    ids=["the connector names its own since", "the worker writes JSON since", "a flattened row"],
)
def test_inv_43_what_was_put_right_is_not_refused_for_older_records(
    config: Mapping[str, str], records: Mapping[str, NewestRecord]
) -> None:
    """Setting the converter, as the advice says, ends the refusal although no newer event of the table came yet."""
    assert states(looked(config, records))["shop.shop.a"] == "warn"


def test_a_delete_without_a_value_is_judged_by_its_key() -> None:
    assert states(looked(WORKERS, {"shop.shop.a": NewestRecord(KEY, None)}))["shop.shop.a"] == "ok"
    assert states(looked(WORKERS, {"shop.shop.a": NewestRecord(b"Struct{id=1}", None)}))["shop.shop.a"] == "bad"


class _Record:
    def __init__(self, value: bytes) -> None:
        self.offset, self.value = 7, value


def test_inv_41_a_schema_change_that_is_not_json_names_the_converter() -> None:
    with pytest.raises(UnreadableEventsError, match=r"offset 7 .*StringConverter.*value\.converter="):
        read_statements([_Record(TEXT)], "topic shop")


AVRO = {**WORKERS, **{f"{side}.converter": "io.confluent.connect.avro.AvroConverter" for side in ("key", "value")}}
APICURIO = {
    **WORKERS,
    **{f"{side}.converter": "io.apicurio.registry.utils.converter.AvroConverter" for side in ("key", "value")},
}
FLATTENED = {**NAMED, "transforms": "t", "transforms.t.type": "io.debezium.transforms.ExtractNewRecordState"}
IDS = tuple((f"apicurio.{side}.globalId", b"\0" * 7 + b"\7") for side in ("key", "value"))


def own(config: Mapping[str, str], record: NewestRecord) -> tuple[str, str]:
    """What is said of the newest record of shop.a."""
    (check,) = written(ConnectorSettings.from_config(config), "shop", ["shop.a"], lambda _: {"shop.shop.a": record})[:1]
    return check.state, check.found


@pytest.mark.parametrize(
    ("config", "record", "state", "found"),
    [
        (AVRO, NewestRecord(b"\0\0\0\0\3\2", b"\0\0\0\0\7\2"), "ok", "Avro with a schema of the registry"),
        (AVRO, NewestRecord(b"\0\0\0\0\3\2", None), "ok", "a delete without a value"),
        (AVRO, GOOD, "warn", "the key is JSON, not Avro; the value is a change event as JSON, not Avro"),
        (APICURIO, NewestRecord(b"\2", b"\0\0", carried=IDS), "ok", "Avro with a schema of the registry"),
        (APICURIO, NewestRecord(b"\2", b"\0\0"), "warn", "bytes that are no text, not Avro"),
        (FLATTENED, NewestRecord(KEY, plain({"id": 1})), "ok", "a row without its envelope"),
        (FLATTENED, NewestRecord(KEY, b"null"), "ok", "JSON null"),
        (FLATTENED, GOOD, "warn", "a change event as JSON, not flattened"),
        (NAMED, NewestRecord(KEY, plain({"id": 1})), "warn", "a row without its envelope"),
    ],
)
def test_a_record_is_held_to_what_the_settings_say(
    config: Mapping[str, str], record: NewestRecord, state: str, found: str
) -> None:
    said = own(config, record)
    assert said[0] == state
    assert found in said[1] or state == "warn"


def test_a_doctor_asks_for_the_schemas_of_a_record() -> None:
    record = NewestRecord(b"\0\0\0\0\3\2", b"\0\0\0\0\7\2")
    assert RULES.schemas_of(AVRO, "shop.a", record) == [SchemaId(CONTENT_ID, 3), SchemaId(CONTENT_ID, 7)]
    assert RULES.schemas_of(NAMED, "shop.a", GOOD) == []


def test_a_doctor_offers_the_line_that_keeps_a_flattened_changes_place() -> None:
    checks = written(ConnectorSettings.from_config(FLATTENED), "shop", ["shop.a", "shop.b"], lambda _: {})
    (offer,) = [one for one in checks if "place in the source's log" in one.found]
    assert offer.state == "ok"
    assert offer.found.endswith(": shop.a, shop.b")
    lines = re.findall(r"(transforms\.[\w.]+)=([^ ]+?)(?:, | on)", offer.todo)
    checks = written(ConnectorSettings.from_config({**FLATTENED, **dict(lines)}), "shop", ["shop.a"], lambda _: {})
    assert [one.found for one in checks if "place in the source's log" in one.found] == []
