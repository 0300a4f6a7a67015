"""What a control topic and a table's snapshots say of files that are written and not committed (INV 48)."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest

from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.topics import TopicState
from airflow_cdc.events.record import RawRecord
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.iceberg_changelog import client
from airflow_cdc.sinks.iceberg_changelog.client import ChangelogSink
from airflow_cdc.sinks.iceberg_changelog.commits import committed_up_to, written
from tests.paths import ROOT

DATA = ROOT / "tests" / "data"
FILE = {"type": "record", "name": "r2", "fields": [{"name": "file_path", "type": "string"}]}
FILES = ["null", {"type": "array", "items": FILE}]
TABLE = {
    "type": "record",
    "name": "table_reference",
    "fields": [{"name": "namespace", "type": {"type": "array", "items": "string"}}, {"name": "name", "type": "string"}],
}
EVENT = {
    "type": "record",
    "name": "event",
    "fields": [
        {"name": "id", "type": {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}},
        {"name": "type", "type": "int"},
        {"name": "group_id", "type": "string"},
        {
            "name": "payload",
            "type": {
                "type": "record",
                "name": "payload_",
                "fields": [
                    {"name": "table_reference", "type": TABLE},
                    {"name": "data_files", "type": FILES},
                    {"name": "delete_files", "type": ["null", {"type": "array", "items": "r2"}]},
                ],
            },
        },
    ],
}
KEY = "kafka.connect.offsets.control.connect-log"
SETTINGS = {
    "topics": "t.orders",
    "iceberg.tables": "raw.orders",
    "iceberg.control.topic": "control",
    "transforms": "f",
    "transforms.f.type": "DebeziumTransform",
}


def event(offset: int, files: int = 1, *, group: str = "connect-log", kind: int = 1, name: str = "orders") -> RawRecord:
    """A record of the control topic's partition 0."""
    text, out = json.dumps(EVENT).encode(), BytesIO()
    payload = {
        "table_reference": {"namespace": ["raw"], "name": name},
        "data_files": [{"file_path": f"f{n}"} for n in range(files)] or None,
        "delete_files": None,
    }
    value = {"id": b"\0" * 16, "type": kind, "group_id": group, "payload": payload}
    fastavro.schemaless_writer(out, json.loads(text.replace(b', "logicalType": "uuid"', b"")), value)
    return RawRecord(0, offset, None, b"\xc2\x01" + struct.pack(">H", len(text)) + text + out.getvalue())


def snapshots(*summaries: Mapping[str, str] | None) -> Any:
    """A table's metadata with these summaries, oldest first."""
    made = [
        SimpleNamespace(
            snapshot_id=n,
            parent_snapshot_id=n - 1 if n else None,
            summary=None if summary is None else SimpleNamespace(additional_properties=dict(summary)),
        )
        for n, summary in enumerate(summaries)
    ]
    return SimpleNamespace(snapshots=made, current_snapshot_id=len(made) - 1 if made else None)


def test_what_the_tasks_of_the_group_have_written_is_read() -> None:
    records = [
        event(1, 2),
        event(2, group="connect-other"),
        event(3, kind=2),
        event(4, 0),
        RawRecord(0, 5, None, None),
        event(6, name="words"),
    ]
    assert [tuple(one) for one in written(records, "connect-log", "control")] == [
        (0, 1, ("raw", "orders"), 2),
        (0, 6, ("raw", "words"), 1),
    ]


def test_the_records_of_a_real_control_topic_are_read() -> None:
    """Iceberg's sink 1.12.0, two records of each type. Java writes a type without a namespace within others by its bare name."""
    kept = json.loads(gzip.decompress((DATA / "changelog" / "control.json.gz").read_bytes()))
    records = [RawRecord(0, one["offset"], None, base64.b64decode(one["value"])) for one in kept["records"]]
    group = kept["group"]
    database = group.removeprefix("connect-").removesuffix("-sink")
    assert [tuple(one) for one in written(records, group, "control")] == [
        (0, 2, (database, "kinds"), 1),
        (0, 3, (database, "words"), 1),
    ]
    assert list(written(records, "connect-another", "control")) == []


@pytest.mark.parametrize("value", [b"{}", b"\xc2\x01", b"\xc2\x01\x00\x02{}", (event(1).value or b"")[:-3]])
def test_a_record_that_is_no_event_is_named(value: bytes) -> None:
    with pytest.raises(TransportError, match="control topic") as raised:
        list(written([RawRecord(3, 9, None, value)], "connect-log", "control"))
    assert "partition 3, offset 9" in str(raised.value)


def test_the_newest_snapshot_that_says_it_counts() -> None:
    """A compaction behind it says nothing."""
    offsets = {KEY: '{"0": 7, "1": 2}'}
    assert committed_up_to(snapshots({KEY: '{"0": 3}'}, offsets, {}, None), KEY) == {0: 7, 1: 2}
    assert committed_up_to(snapshots({f"{KEY}-two": '{"0": 3}'}, {}), KEY) is None
    assert committed_up_to(snapshots(), KEY) is None


@dataclass
class Control:
    """A transport with one control topic."""

    ends: tuple[int, int] | None
    events: Sequence[RawRecord]
    asked: list[Any] = field(default_factory=list)

    def topic_states(self, names: Sequence[str]) -> Mapping[str, TopicState]:
        return {name: TopicState(name, "i", {0: self.ends}) for name in names if self.ends}

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Sequence[RawRecord]:
        self.asked.append((topic, ranges))
        begin, end = ranges[0]
        return [one for one in self.events if begin <= one.offset < end]


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> ChangelogSink:
    """A sink whose table's newest snapshot has the events of the control topic before offset 5."""
    metadata = snapshots({KEY: '{"0": 5}'})
    lake = SimpleNamespace(table=lambda namespace, name: SimpleNamespace(metadata=metadata), where="w", name="lake")
    monkeypatch.setattr(client, "Lake", lambda name, properties: lake)
    return ChangelogSink(IcebergEndpoint("lake", {}), SimpleNamespace(name="log", settings=lambda: SETTINGS))


@pytest.mark.parametrize(
    ("control", "left"),
    [
        (Control((0, 5), [event(4)]), {}),
        (Control((0, 6), [event(5, 3)]), {"shop.orders": 3}),
        (Control((0, 9), [event(4), event(6, name="words"), event(7, group="another")]), {}),
        (Control((0, 9), [event(6), event(8)]), {"shop.orders": 2}),
        (Control((7, 9), [event(8)]), {"shop.orders": 1}),
        (Control(None, []), {}),
    ],
    ids=["all committed", "written behind it", "of others", "two", "the topic's beginning is gone", "no topic"],
)
def test_inv_48_a_file_that_no_snapshot_has_is_not_in_the_table(
    sink: ChangelogSink, control: Control, left: dict[str, int]
) -> None:
    assert sink.uncommitted(control, {"shop.orders": "t.orders"}) == left  # type: ignore[arg-type]
    # what the table has already is not read again
    assert all(ranges[0][0] >= 5 for _, ranges in control.asked)
