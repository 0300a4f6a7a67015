"""Changes of one table out of Canal's records, of which one may hold many changes of many tables."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.canal.capture import CanalCapture
from airflow_cdc.connectors.canal.events.frames import Flat, Packets
from airflow_cdc.connectors.canal.events.mysql import CanalValues
from airflow_cdc.decisions.apply.applied import NotPlainError, PlainChange
from airflow_cdc.events.frame import Frame
from airflow_cdc.events.record import Opened, RawRecord, Want
from airflow_cdc.spark_apps.adapters.canal import Events
from airflow_cdc.spark_apps.ports import DecodesFew
from tests.apply_support import ITEMS
from tests.goldens.canal import flat
from tests.unit.connectors.canal.packed import packed
from tests.unit.connectors.canal.settings import FOLLOWED, PROTOBUF

TWO: list[dict[str, Any]] = [{"id": "1", "name": "a", "qty": "1"}, {"id": "2", "name": "b", "qty": None}]
OTHER = {**flat("INSERT", [{"x": "1"}]), "table": "others"}
MOVED = flat("UPDATE", [{"id": "3", "name": "b", "qty": None}], [{"id": "2"}])


def opened(frame: Frame, value: bytes | None) -> list[Opened]:
    return list(frame.opener(ITEMS, CanalValues(), Want(), {})(RawRecord(0, 7, None, value)))


def plain(config: Mapping[str, str], *values: bytes) -> list[PlainChange]:
    events = Events(CanalCapture.from_config(config))
    assert isinstance(events, DecodesFew)
    decoder = events.plain(ITEMS)
    assert decoder is not None
    records: Any = [RawRecord(0, at, None, value) for at, value in enumerate(values)]
    return list(decoder.decode(records))


def text(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode()


def test_changes_of_a_packet_are_numbered_over_all_of_its_messages() -> None:
    """A row has two numbers, since a change of its key is two changes; those of other tables are counted, too."""
    packet = packed(flat("INSERT", TWO), OTHER, MOVED, {**flat("ALTER", None), "isDdl": True}, flat("DELETE", TWO))
    changes = opened(Packets(), packet)
    own = [one for one in changes if not one.table]
    assert [one.nth for one in changes] == list(range(7))
    assert [(one.op, one.at and one.at.row, one.key) for one in own] == [
        ("c", 0, ("1",)), ("c", 2, ("2",)), ("d", 6, ("2",)), ("c", 7, ("3",)), ("d", 10, ("1",)), ("d", 12, ("2",)),
    ]  # fmt: skip
    assert [one.table for one in changes if one.table] == ["shop.others"]


@pytest.mark.parametrize("frame", [Flat(others=False), Packets(others=False)])
def test_changes_of_other_tables_may_be_passed_over(frame: Frame) -> None:
    assert opened(frame, text(OTHER)) == []
    assert [one.key for one in opened(frame, text(flat("INSERT", TWO)))] == [("1",), ("2",)]
    assert pickle.loads(pickle.dumps(frame)) == frame  # noqa: S301 - of one's own


@pytest.mark.parametrize("frame", [Flat(), Packets()])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "the value is not JSON"),
        (b"", "the value is not JSON"),
        (b"\xff{", "the value is not valid UTF-8"),
        (b"{}", "the value is not a change event: it has no type"),
        (text(flat("INSERT", TWO, gtid="")), "the event has no position"),
    ],
)
def test_what_is_no_message_is_said(frame: Frame, value: bytes | None, why: str) -> None:
    assert {one.bad.partition(":")[0] for one in opened(frame, value)} == {why.partition(":")[0]}


@pytest.mark.parametrize("config", [FOLLOWED, PROTOBUF], ids=["flat", "protobuf"])
def test_few_records_are_decoded_in_the_process_in_their_order(config: Mapping[str, str]) -> None:
    """Other tables share the topic, and statements are in it."""
    messages = [flat("INSERT", TWO), OTHER, {**flat("CREATE", None), "isDdl": True}, MOVED]
    values = [packed(*messages)] if config is PROTOBUF else [text(one) for one in messages]
    changes = plain(config, *values)
    assert [(one.op, one.key, one.after) for one in changes] == [
        ("c", (1,), (1, "a", 1)), ("c", (2,), (2, "b", None)), ("d", (2,), None), ("c", (3,), (3, "b", None)),
    ]  # fmt: skip
    assert all(one.change is not None and one.change.log.endswith("/gtid") for one in changes)


@pytest.mark.parametrize(
    "value",
    [text(flat("TRUNCATE", None)), text(flat("INSERT", [{**TWO[0], "more": "1"}])), text(flat("INSERT", [{"id": "x"}])), b"{"],
)  # fmt: skip
def test_what_is_unusual_is_left_to_spark(value: bytes) -> None:
    with pytest.raises(NotPlainError):
        plain(FOLLOWED, value)


def test_an_old_row_is_known_of_an_update_that_says_what_it_replaced_and_of_a_delete() -> None:
    messages = [
        flat("UPDATE", TWO[:1], [{"name": "z"}]),
        flat("UPDATE", TWO[:1]),
        flat("DELETE", TWO[:1]),
        flat("INSERT", TWO[:1]),
    ]
    opener = Flat().opener(replace(ITEMS, key=()), CanalValues(), Want().of(replace(ITEMS, key=())), {})
    before = [one.before for message in messages for one in opener(RawRecord(0, 0, None, text(message)))]
    assert before == [("1", "z", "1"), None, ("1", "a", "1"), None]
