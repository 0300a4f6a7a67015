"""What the settings of a flattening connector say of its messages, against messages of real ones (Debezium 3.6.1)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.flattening import Deletes, FlattenedForm, flattened_form
from tests.wires import names, payload, recording

FLAT = [name for name in names("-flat-") if "avro" not in name and "protobuf" not in name]
# the row with this key was deleted, and the one with that key has a NULL where the column's default is 7
DELETED, NULLED = 3, 4


def form_of(name: str) -> FlattenedForm:
    (form,) = ConnectorSettings.from_config(recording(name).settings).flattened
    return form


def messages(name: str, key: int) -> list[Any]:
    """The values under a key: a record without one is None, as is one whose JSON is null."""
    return [payload(one.value) for one in recording(name).records["t"] if payload(one.key) == {"id": key}]


def left_of_a_delete(name: str) -> Deletes:
    last = [value for value in messages(name, DELETED) if value is None or value.get("__deleted") == "true"]
    if not last:
        return Deletes.LOST
    return Deletes.NULL if last[0] is None else Deletes.ROW


@pytest.mark.parametrize("name", FLAT)
def test_what_is_left_of_a_delete_follows_from_the_settings(name: str) -> None:
    """Settings of before 2.5 count for nothing in 3.6.1: with them, what it does is one of what some version does."""
    deletes = form_of(name).deletes
    assert left_of_a_delete(name) in deletes
    assert (len(deletes) == 1) == (
        "delete.tombstone.handling.mode" in form_of(name).setting or "none" in name or "kept" in name
    )


@pytest.mark.parametrize("name", [name for name in FLAT if "fields" in name or "headers" in name or "nulls" in name])
def test_added_parts_stand_in_the_fields_and_headers_that_the_settings_name(name: str) -> None:
    form, source = form_of(name), name.partition("-")[0]
    assert form.fields or form.headers
    for record in recording(name).records["t"]:
        value = payload(record.value)
        assert value is None or {field for _, field in form.fields} <= value.keys()
        assert {header for _, header in form.headers} <= {header for header, _ in record.headers}
    assert form.lacks(source) == ()


@pytest.mark.parametrize("name", FLAT)
def test_a_null_arrives_as_the_default_only_where_the_form_says_so(name: str) -> None:
    """Each connector has value.converter.replace.null.with.default=false, which does not help here."""
    form, arrived = form_of(name), messages(name, NULLED)[0]["more"]
    allowed = {7, None} if len(form.deletes) > 1 else {7}
    assert arrived in (allowed if form.null_becomes_default else {None})


@pytest.mark.parametrize("source", ["mysql", "postgres"])
def test_the_offered_line_makes_events_whole_and_keeps_what_is_added_already(source: str) -> None:
    before = flattened_form("unwrap", {"add.fields": "table:of,op", "add.headers": "source.ts_ms"})
    assert before.lacks(source)
    assert not before.is_placed(source)
    lines = dict(line.partition("=")[::2] for line in before.made_whole(source).split(", "))
    options = {name.removeprefix("transforms.unwrap."): value for name, value in lines.items()}
    after = flattened_form("unwrap", {**options, "add.headers": "source.ts_ms"})
    assert after.lacks(source) == ()
    assert after.is_placed(source)
    assert after.made_whole(source) == ""
    assert dict(after.fields)["source.table"] == dict(before.fields)["source.table"] == "__of"


def test_fields_are_named_as_the_transform_names_them() -> None:
    form = flattened_form(
        "t", {"add.fields": "op, table,source.pos, lsn ,ts_ms:at,transaction.id", "add.fields.prefix": "x_"}
    )
    assert dict(form.fields) == {
        "op": "x_op",
        "source.table": "x_table",
        "source.pos": "x_source_pos",
        "source.lsn": "x_lsn",
        "ts_ms": "x_at",
        "transaction.id": "x_transaction_id",
    }


def test_a_column_that_has_the_name_of_an_added_field_is_named() -> None:
    form = flattened_form("t", {"add.fields": "op", "delete.tombstone.handling.mode": "rewrite"})
    assert form.hidden_by(["id", "__op", "__deleted"]) == ("__deleted", "__op")
    assert flattened_form("t", {}).hidden_by(["__op", "__deleted"]) == ()


def test_a_delete_without_a_value_has_no_place_and_then_nothing_has_one() -> None:
    whole = {"add.fields": "op,ts_ms,source.ts_ms,lsn,txId,sequence"}
    for mode, placed in {"rewrite": True, "rewrite-with-tombstone": True, "tombstone": False, "drop": False}.items():
        form = flattened_form("t", {**whole, "delete.tombstone.handling.mode": mode})
        assert (form.lacks("postgres"), form.is_placed("postgres")) == ((), placed)


UNWRAP = {"transforms": "u", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState", "topic.prefix": "s"}
OLD = {**{k: v for k, v in UNWRAP.items() if k != "topic.prefix"}, "database.server.name": "s"}
MODE = "transforms.u.delete.tombstone.handling.mode"
HANDLING, DROPS = "transforms.u.delete.handling.mode", "transforms.u.drop.tombstones"


@pytest.mark.parametrize(
    ("config", "surely", "perhaps"),
    [
        ({**UNWRAP, MODE: "drop"}, (f"{MODE}=drop",), ()),
        ({**UNWRAP, MODE: "rewrite", HANDLING: "drop"}, (), ()),
        ({**UNWRAP, HANDLING: "drop"}, (), (f"{HANDLING}=drop",)),
        ({**UNWRAP, HANDLING: "drop", DROPS: "false"}, (), ()),
        (UNWRAP, (), ("transforms.u.type=io.debezium.transforms.ExtractNewRecordState",)),
        (OLD, ("transforms.u.type=io.debezium.transforms.ExtractNewRecordState",), ()),
        ({**OLD, HANDLING: "rewrite"}, (), ()),
        ({**OLD, DROPS: "false"}, (), ()),
        ({**OLD, DROPS: "true", HANDLING: "drop"}, (f"{HANDLING}=drop, {DROPS}=true",), ()),
        ({"topic.prefix": "s", "skipped.operations": "t, d"}, ("skipped.operations with d",), ()),
        ({"topic.prefix": "s", "skipped.operations": "t"}, (), ()),
    ],
)
def test_settings_by_which_no_delete_reaches_the_topics_are_told_from_those_that_depend_on_the_version(
    config: dict[str, str], surely: tuple[str, ...], perhaps: tuple[str, ...]
) -> None:
    settings = ConnectorSettings.from_config(config)
    assert (settings.deletes_lost(), settings.deletes_lost(surely=False)) == (surely, perhaps)
