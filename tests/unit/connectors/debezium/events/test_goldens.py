"""Every record of every form, the bad ones included, against what the decoders of before made of it (docs/adr/0025)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.events.frames import frame_of
from airflow_cdc.core.table import Column
from airflow_cdc.decisions.apply.applied import NotPlainError
from airflow_cdc.events.decoder import Plan, decoder
from airflow_cdc.events.record import RawRecord, Side, Want
from airflow_cdc.spark_apps.types import arrow_rows
from tests.goldens import keep
from tests.goldens.scenes import Scene, record_scenes, value_scenes

SCENES = {scene.name: scene for scene in [*(one for one, _ in value_scenes()), *record_scenes()]}
VALUES = [name for name in keep.kept() if name.startswith("mysql_values")]
RECORDS = [name for name in keep.kept() if "_values_" not in name]
# a record that was taken, and is bad now, says one of these
STRICTER = ("cannot be decoded", "the event has no source position", "is not JSON", "is not valid UTF-8", "has no key")
# a record that was bad, and is taken now: nobody asked for the part that was wrong
LOOSER = ("the value is not JSON", "the key is not valid UTF-8", "the record has no key", "the key's column")


@lru_cache
def both(name: str) -> list[tuple[RawRecord, Mapping[str, Any], Mapping[str, Any]]]:
    """Each record, what was made of it, and what is made of it now."""
    scene = SCENES[name]
    now = keep.now(scene, frame_of(scene.settings, scene.table.full_name), scene.settings.values)
    before = [keep.compact(line) for line in keep.read(name)[1]]
    return list(zip(scene.records, before, now, strict=True))


@pytest.mark.parametrize("name", VALUES)
def test_inv_31_a_value_is_read_as_before_or_not_at_all(name: str) -> None:
    for record, before, now in both(name):
        if "failed" in before:
            assert now["bad"], record
            continue
        read = before.get("after") or {}
        assert {column: read.get(column) for column in now["after"]} == now["after"], record
        if "bad" in before:
            assert now["bad"], record
        lost = {*read} - {*now["after"]}
        assert all(column in now.get("bad", "") for column in lost), record


@pytest.mark.parametrize("name", [*VALUES, *RECORDS])
def test_what_the_decoder_of_small_batches_took_is_read_to_the_same(name: str) -> None:
    """It took nothing but what a connector writes."""
    taken = [one for one in both(name) if one[1].get("plain") == {}]
    for record, before, now in taken:
        # an old row that such an operation does not have
        ignored = {"plain", *(["before"] if now["op"] == "c" else [])}
        assert {key: value for key, value in before.items() if key not in ignored} == dict(now), record
    if name in {"mysql_keyed_before", "mysql_keyless"}:
        assert len(taken) > 50


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_taken_as_before_with_the_same_place_in_the_log(name: str) -> None:
    for record, before, now in both(name):
        if "failed" in before or ("other_table" in before and "other_table" in now):
            continue
        if "bad" in before and "bad" in now:
            continue
        if "bad" in now:
            assert now["bad"].endswith(STRICTER), (record, before)
        elif "bad" in before:
            assert before["bad"].startswith(LOOSER), (record, now)
        elif not of_another_type(record):
            placed = ("place", "log") if "origin" in before else ()
            facts = ("op", "origin", *placed, "transaction", "ts_ms", "snapshot", "defaulted", "other_table")
            assert {one: before.get(one) for one in facts} == {one: now.get(one) for one in facts}, record
            # also those of the old row, where it is wanted
            assert {*before.get("unknown", ())} <= {*now.get("unknown", ())}, record


@pytest.mark.parametrize("name", [name for name in RECORDS if "key_of" not in name])
def test_what_is_taken_is_what_the_record_says(name: str) -> None:
    """Read by the standard library alone: these columns are a number or a text."""
    scene, said = SCENES[name], 0
    for record, _, now in both(name):
        if "bad" in now or "other_table" in now or record.value is None:
            continue
        event = json.loads(record.value)
        event = event if event.get("payload") is None else event["payload"]
        assert event["op"] == now["op"]
        if event["op"] in {"c", "u", "r"} and "unknown" not in now:
            assert text_of(scene, event["after"]) == now["after"], record
            said += 1
        if event["op"] in {"u", "d"} and scene.table.keyless and "unknown" not in now:
            assert text_of(scene, event["before"]) == now["before"], record
    assert said > 20


def of_another_type(record: RawRecord) -> bool:
    """Whether a field of the source block is of a type that no connector writes there: {"snapshot": false}."""
    try:
        event = json.loads(record.value or b"")
        source = (event.get("payload") or event)["source"]
        return (
            any(isinstance(one, bool | float | list | dict) for one in source.values()) or source.get("snapshot") == 7
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return False


def text_of(scene: Scene, row: Mapping[str, Any]) -> dict[str, str]:
    return {one.name: repr(row[one.name]) for one in scene.table.mirrored if row.get(one.name) is not None}


@pytest.mark.parametrize("name", [*VALUES, *RECORDS])
def test_in_the_process_a_record_is_what_it_is_in_a_batch_or_is_left_to_it(name: str) -> None:
    scene = SCENES[name]
    frame, want = (
        frame_of(scene.settings, scene.table.full_name),
        Want(Side.ROW if scene.before else Side.NONE, Side.ROW),
    )
    decode = decoder(Plan(scene.table, frame, scene.settings.values, want))
    taken = 0
    for record, _, now in both(name):
        unusual = now.get("op") in {"r", "t"} or {"bad", "unknown", "other_table", "snapshot"} & {*now}
        try:
            (change,) = decode.plain([record])
        except NotPlainError:
            assert unusual, record
            continue
        assert not unusual, record
        taken += 1
        images = {
            "key": (scene.table.key_columns, change.key or None),
            "before": (scene.table.mirrored, change.before),
            "after": (scene.table.mirrored, change.after),
        }
        for part, (columns, values) in images.items():
            assert (None if values is None else in_arrow(columns, values)) == now.get(part), record
        place = None if change.change is None else [*change.change.place]
        assert (change.op, change.defaulted, place) == (now["op"], "defaulted" in now, now.get("place")), record
    assert taken or name == "mysql_values_required"  # one text in columns of each kind


def in_arrow(columns: Sequence[Column], values: Sequence[Any]) -> dict[str, str]:
    rows = arrow_rows(columns, [tuple(values)])
    return keep.image(
        columns, [keep.plain(rows.column(at).combine_chunks()).to_pylist()[0] for at in range(len(columns))]
    )
