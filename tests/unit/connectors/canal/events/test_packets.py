"""Protobuf messages of a real Canal server, unpacked: entry by entry what the same server sent as flat JSON."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.connectors.canal.events.packets import flat_texts, is_packet
from airflow_cdc.connectors.canal.statements import read_statements
from airflow_cdc.core.errors import TransportError
from tests.unit.connectors.canal.packed import packed

MESSAGES = json.loads((Path(__file__).parents[4] / "data" / "canal-messages.json").read_text())["messages"]
ROW = {
    "data": [{"id": "1", "name": "é\u2028"}, {"id": "2", "name": None}],
    "old": None,
    "database": "shop",
    "table": "items",
    "type": "INSERT",
    "isDdl": False,
    "es": 1_800_000_000_000,
    "gtid": "u:1-7",
}
DDL = {**ROW, "data": None, "type": "ALTER", "isDdl": True, "sql": "ALTER TABLE items ADD x int"}


@dataclass(frozen=True)
class Sent:
    offset: int
    value: bytes


def records(kind: str) -> list[Sent]:
    """The records of a real server."""
    return [Sent(m["offset"], base64.b64decode(m["value"])) for m in MESSAGES[kind]]


def unpacked(value: bytes) -> list[dict[str, Any]]:
    return [json.loads(one.text) for one in flat_texts(value)]


@pytest.mark.parametrize("by_gtid", ["", "_gtid"])
def test_an_entry_is_the_flat_record_that_the_same_server_sent(by_gtid: str) -> None:
    entries = [document for record in records(f"protobuf{by_gtid}") for document in unpacked(record.value)]
    flat = [json.loads(record.value) for record in records(f"flat{by_gtid}")]
    # the recording of each ends where it was read last
    assert len(entries) > 25
    for mine, theirs in zip(entries, flat, strict=False):
        assert mine == {name: theirs[name] for name in mine}


def test_the_changes_of_a_record_are_numbered_through() -> None:
    for record in records("protobuf_gtid"):
        at = 0
        for entry in flat_texts(record.value):
            assert entry.first == at
            at += max(1, len(json.loads(entry.text)["data"] or ()))


def test_flat_json_is_no_packet_and_a_packet_is() -> None:
    assert all(is_packet(record.value) for record in records("protobuf"))
    assert not any(is_packet(record.value) for record in records("flat"))


def test_texts_and_nulls_come_through_packing() -> None:
    update = {**ROW, "type": "UPDATE", "old": [{"name": None}, {"name": "x", "id": "3"}]}
    for flat in (ROW, update, {**ROW, "type": "DELETE"}):
        assert unpacked(packed(flat)) == [{**flat, "sql": ""}]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (packed(ROW)[:-5], "not protobuf"),
        (packed(ROW, compression=2), "compression 2"),
        (packed(ROW, packet=3), "a packet of type 3"),
        (packed(ROW, kind=9), "an entry of the unknown type 9"),
        (b"\x10\x01", "a packet of type 0"),
        (packed(ROW).replace(b"\xc3\xa9", b"\xc3\x28"), "not UTF-8"),
        (packed(ROW).replace(b"shop", b"sh\xffp"), "not UTF-8"),
        (packed(ROW).replace(b"name", b"n\xffme"), "not UTF-8"),
    ],
)
def test_what_is_no_message_of_canal_is_named(value: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        flat_texts(value)


@pytest.mark.parametrize("kind", [1, 3, 4, 5])
def test_entries_without_rows_are_passed_over(kind: int) -> None:
    assert flat_texts(packed(ROW, kind=kind)) == []


def test_a_type_that_is_not_known_keeps_its_number() -> None:
    assert unpacked(packed({**ROW, "type": "?"}))[0]["type"] == "99"


def test_statements_are_those_of_the_flat_records() -> None:
    statements = read_statements(records("protobuf_gtid"), "here")
    assert statements == read_statements(records("flat_gtid"), "here")[: len(statements)]
    assert len(statements) > 5
    truncate = {**DDL, "type": "TRUNCATE"}
    assert [one.statement for one in read_statements([Sent(0, packed(ROW, DDL, truncate))], "here")] == [DDL["sql"]]


def test_a_packet_that_only_seems_to_hold_a_statement_is_named() -> None:
    with pytest.raises(TransportError, match="the record at offset 4 is no statement"):
        read_statements([Sent(4, b"\x10\x01\x50\x01")], "here")
    assert read_statements([Sent(4, b"\x10\x01")], "here") == []
