"""A document's version keeps a late event from undoing a newer one (INV 22), on a real node, by what Spark's tasks run."""

from __future__ import annotations

import urllib.error
from typing import Any

import pytest

from airflow_cdc.sinks.opensearch import versions
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.spark_apps.adapters.opensearch_documents import DocumentWriter, Origin
from stack.process import wait_until
from tests.integration.opensearch.test_sink import asked


class Writer:
    """Writes documents with one field, as a Spark task does. A row is what DocumentWriter is given."""

    def __init__(self, sink: SearchSink, namespace: str) -> None:
        self.sink, self.index = sink, sink.target(namespace, "orders").record.index

    def event(self, epoch: int, offset: int, value: str | None) -> None:
        """The event at an offset; no value: a delete."""
        self._write(Origin.EVENT, epoch, versions.of_event(epoch, offset), value)

    def read(self, epoch: int, value: str | None, *, again: bool = False) -> None:
        """A row read from the source."""
        self._write(Origin.AGAIN if again else Origin.READ, epoch, None, value)

    def _write(self, origin: Origin, epoch: int, version: int | None, value: str | None) -> None:
        row: Any = ("1", version, value is None, value)
        DocumentWriter(self.sink.endpoint, self.index, ("a",), origin, versions.of_read(epoch))([row])

    @property
    def value(self) -> str | None:
        """What a reader of the index finds; None: a deleted row."""
        source = asked(self.sink.endpoint.url, f"{self.index}/_doc/1", method="GET")["_source"]
        return None if source.get("cdc_deleted") else str(source["a"])


@pytest.fixture
def writer(shop: SearchSink, namespace: str) -> Writer:
    return Writer(shop, namespace)


def test_inv_22_a_late_event_does_not_undo_a_newer_one(writer: Writer) -> None:
    writer.event(1, 10, "new")
    writer.event(1, 9, "old")
    assert writer.value == "new"
    writer.event(1, 11, "newer")
    assert writer.value == "newer"


def test_inv_22_after_a_recovery_no_event_from_before_wins_however_high_its_offset(writer: Writer) -> None:
    writer.event(1, 5_000_000, "before")
    writer.read(2, "read")
    assert writer.value == "read"
    writer.event(1, 9_000_000, "late")
    assert writer.value == "read"
    # the new topic may begin at 0 again
    writer.event(2, 0, "first event after")
    assert writer.value == "first event after"


def test_inv_22_a_deleted_row_is_not_brought_back_after_opensearch_forgets_deletes(writer: Writer) -> None:
    url, index = writer.sink.endpoint.url, writer.index
    asked(url, f"{index}/_settings", {"index.gc_deletes": "1ms"}, "PUT")
    # the trap: a document that was really deleted is forgotten, and an older write makes it again
    asked(url, f"{index}/_doc/trap?version=9&version_type=external", {"a": "x"}, "PUT")
    asked(url, f"{index}/_doc/trap?version=20&version_type=external", method="DELETE")

    def forgotten() -> bool | None:
        asked(url, f"{index}/_refresh", {})
        try:
            asked(url, f"{index}/_doc/trap?version=8&version_type=external", {"a": "back"}, "PUT")
        except urllib.error.HTTPError:
            return None
        return True

    writer.event(1, 20, None)
    assert wait_until(forgotten, timeout=60, what="OpenSearch to forget the delete")
    writer.event(1, 19, "back")
    assert writer.value is None


def test_inv_22_a_delete_of_a_row_that_never_was_there_is_remembered(writer: Writer) -> None:
    writer.event(1, 7, None)
    writer.event(1, 6, "late insert")
    assert writer.value is None


def test_inv_22_a_repeated_event_does_not_undo_a_row_that_was_read_again(writer: Writer) -> None:
    writer.event(1, 10, "event")
    writer.read(1, "read again", again=True)
    assert writer.value == "read again"
    writer.event(1, 10, "event")
    assert writer.value == "read again"
    writer.event(1, 11, "next event")
    assert writer.value == "next event"


def test_a_row_read_again_brings_a_deleted_document_back(writer: Writer) -> None:
    writer.event(1, 10, None)
    writer.read(1, "there", again=True)
    assert writer.value == "there"
