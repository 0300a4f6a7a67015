"""Documents of deleted rows are removed when they are old and no unread event can be older (INV 22), on a real node."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from airflow_cdc.core.pipeline import MaintenancePolicy
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.core.types import Integer
from airflow_cdc.decisions.apply.start import DdlLog, plan_start
from airflow_cdc.sinks.opensearch import versions
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.spark_apps.adapters.opensearch_documents import DocumentWriter, Origin
from airflow_cdc.spark_apps.adapters.opensearch_keeper import OpenSearchKeeper
from airflow_cdc.spark_apps.ports import Unread
from airflow_cdc.spark_apps.tidied import Tidied
from stack.process import wait_until
from tests.contract.stage_writer import table_of
from tests.integration.opensearch.test_sink import asked

NO_SPARK = cast("Any", None)
TOPIC = "shop.orders"
EPOCH = 2


class Kept:
    """A table that is written as Spark's tasks do it, and maintained."""

    def __init__(self, sink: SearchSink, namespace: str) -> None:
        self.sink, self.place = sink, (namespace, "orders")
        self.index = sink.target(*self.place).record.index

    def event(self, offset: int, key: str, value: str | None, epoch: int = EPOCH) -> None:
        """The event at an offset; no value: a delete."""
        self._write(Origin.EVENT, [(key, versions.of_event(epoch, offset), value is None, value)])

    def again(self, *keys: str) -> None:
        """Rows read from the source again."""
        self._write(Origin.AGAIN, [(key, None, False, "again") for key in keys])

    def _write(self, origin: Origin, rows: list[Any]) -> None:
        DocumentWriter(self.sink.endpoint, self.index, ("a",), origin, versions.of_read(EPOCH))(rows)

    def applied_to(self, offset: int) -> None:
        """A commit that says so."""
        stamp = Stamp(EPOCH, None, {TOPIC: TopicOffsets("T", {0: offset})})
        self.sink.commit_nothing(*self.place, stamp.to_summary())

    def unread(self) -> Unread | None:
        """By the newest stamp, as `maintain` asks for it."""
        stamp = self.sink.stamp(*self.place)
        return None if stamp is None else Unread(stamp.epoch, min(stamp.offsets[TOPIC].next.values()))

    def tidy(self, days: float = 31) -> Tidied:
        """Maintain it as if so many days had passed; by the default policy, 30 days."""
        now = datetime.now(UTC) + timedelta(days=days)
        return OpenSearchKeeper(self.sink).tidy(NO_SPARK, self.place, MaintenancePolicy(), now, self.unread)

    @property
    def documents(self) -> dict[str, str | None]:
        """All of the index; None: a deleted row."""
        hits = asked(self.sink.endpoint.url, f"{self.index}/_search", {"size": 100})["hits"]["hits"]
        return {hit["_id"]: hit["_source"].get("a") for hit in hits}

    @property
    def rows(self) -> set[str]:
        """The keys that readers find."""
        hits = asked(self.sink.endpoint.url, f"{'.'.join(self.place)}/_search", {"size": 100})["hits"]["hits"]
        return {hit["_id"] for hit in hits}


@pytest.fixture
def kept(shop: SearchSink, namespace: str) -> Kept:
    """Rows 1 and 2 were deleted, row 3 is there; the stamp says that all was applied."""
    made = Kept(shop, namespace)
    for offset, (key, value) in enumerate((("1", "a"), ("2", "b"), ("1", None), ("2", None), ("3", "c"))):
        made.event(offset, key, value)
    made.applied_to(5)
    return made


def test_old_ones_go_and_young_ones_stay_and_readers_see_no_difference(kept: Kept) -> None:
    before = kept.sink.facts(*kept.place)
    assert kept.tidy(days=29) == Tidied()
    assert kept.documents == {"1": None, "2": None, "3": "c"}
    assert kept.tidy() == Tidied(purged=2)
    assert kept.documents == {"3": "c"}
    assert kept.rows == {"3"}
    assert kept.sink.facts(*kept.place) == before
    assert kept.tidy() == Tidied()


def test_inv_22_what_an_unread_event_could_still_undo_stays(kept: Kept) -> None:
    """A batch was cut after its documents: it is read again, from its begin."""
    kept.event(5, "4", "d")
    kept.event(6, "4", None)
    assert kept.tidy() == Tidied(purged=2)
    assert kept.documents == {"3": "c", "4": None}
    kept.event(5, "4", "d")
    assert kept.rows == {"3"}
    kept.applied_to(9)
    assert kept.tidy() == Tidied(purged=1)


def test_inv_22_a_message_that_comes_late_after_the_purge_is_refused_by_its_position(kept: Kept) -> None:
    """The versions do not refuse it any more, so the stamp has to: a batch begins behind all that was applied."""
    kept.tidy()
    stamp, summary = kept.sink.stamp(*kept.place), kept.sink.stamped_summary(*kept.place)
    state = TopicState(TOPIC, "T", {0: (0, 7)})
    table: Table = table_of({"id": Integer(64)})
    read = MySqlPosition.from_json
    start = plan_start(
        table, EPOCH, stamp, summary, topic=TOPIC, state=state, upto={0: 7}, ddl=DdlLog("none"), read_position=read
    )
    assert start.ranges == {0: (5, 7)}
    # why it matters: OpenSearch itself would take an applied event again, once it has forgotten the removal
    asked(kept.sink.endpoint.url, f"{kept.index}/_settings", {"index.gc_deletes": "1ms"}, "PUT")

    def taken() -> bool | None:
        asked(kept.sink.endpoint.url, f"{kept.index}/_refresh", {})
        kept.event(0, "1", "a")
        asked(kept.sink.endpoint.url, f"{kept.index}/_refresh", {})
        return "1" in kept.rows or None

    assert wait_until(taken, timeout=60, what="OpenSearch to forget the removal")


def test_inv_22_the_next_event_of_a_removed_row_is_taken_at_once(kept: Kept) -> None:
    """A removal counts as a version more: of the newest event's document that would be the next event's version."""
    kept.event(5, "3", None)
    kept.applied_to(6)
    assert kept.tidy().purged == 2
    assert "3" in kept.documents
    kept.event(6, "3", "back")
    kept.event(7, "1", "back")
    asked(kept.sink.endpoint.url, f"{kept.index}/_refresh", {})
    assert kept.rows == {"1", "3"}


def test_inv_22_a_row_read_again_right_after_the_purge_is_written(kept: Kept) -> None:
    """OpenSearch remembers the removal for a minute, with a higher version than a row gets that has no document."""
    assert kept.tidy().purged == 2
    kept.again("1", "3")
    asked(kept.sink.endpoint.url, f"{kept.index}/_refresh", {})
    assert kept.documents == {"1": "again", "3": "again"}
    kept.event(5, "1", None)
    asked(kept.sink.endpoint.url, f"{kept.index}/_refresh", {})
    assert kept.rows == {"3"}


def test_inv_22_a_row_read_again_whose_document_is_removed_under_its_hands_is_written(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version was asked for, then it is removed, which is one version more, then it is written."""
    ask, tidied = DocumentWriter._versions, list[Tidied]()

    def and_then_removed(writer: DocumentWriter, client: Any, ids: list[str]) -> Any:
        found = ask(writer, client, ids)
        tidied.extend([] if tidied else [kept.tidy()])
        return found

    monkeypatch.setattr(DocumentWriter, "_versions", and_then_removed)
    kept.again("1", "3")
    asked(kept.sink.endpoint.url, f"{kept.index}/_refresh", {})
    assert tidied == [Tidied(purged=2)]
    assert kept.documents == {"1": "again", "3": "again"}


def test_a_document_without_its_time_stays(kept: Kept) -> None:
    url, version = kept.sink.endpoint.url, versions.of_event(EPOCH, 0)
    source = {"cdc_id": "9", "cdc_deleted": True}
    asked(url, f"{kept.index}/_doc/9?version={version}&version_type=external", source, "PUT")
    assert kept.tidy().purged == 2
    assert kept.documents == {"3": "c", "9": None}


def test_it_is_safe_beside_a_writer_that_brings_rows_back(kept: Kept) -> None:
    """Rows are read again, which gives their documents no higher versions, while they are removed."""
    count = 3000
    rows = [(f"k{n}", versions.of_event(EPOCH, n + 5), True, None) for n in range(count)]
    kept._write(Origin.EVENT, rows)
    kept.applied_to(count + 10)
    back = [f"k{n}" for n in range(0, count, 7)]
    begun = threading.Event()

    def write() -> None:
        for at in range(0, len(back), 5):
            kept.again(*back[at : at + 5])
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(30)
    done = kept.tidy()
    writer.join()
    asked(kept.sink.endpoint.url, f"{kept.index}/_refresh", {})
    assert done.purged > 0
    assert kept.sink.count(kept.index) == len(back) + 1
    assert kept.tidy().failed == 0
    assert kept.sink.count(kept.index) == len(back) + 1


def test_a_table_that_is_not_there_or_was_never_applied_is_left_alone(shop: SearchSink, namespace: str) -> None:
    keeper = OpenSearchKeeper(shop)
    policy, now = MaintenancePolicy(), datetime.now(UTC)
    assert keeper.tidy(NO_SPARK, (namespace, "none"), policy, now, cast("Any", None)) == Tidied()
    assert keeper.tidy(NO_SPARK, (namespace, "orders"), policy, now, lambda: None) == Tidied()
