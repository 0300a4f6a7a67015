"""The sink on a real node, without Spark: aliases, stages, publishing, records that could not be applied, control documents."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.core.errors import SinkError, StaleHeadError, UnknownStateError
from airflow_cdc.core.ports import ControlStore
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.opensearch import dead_letters
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.control import OpenSearchControlStore
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.sinks.opensearch.indexes import CONTROL, Stage
from airflow_cdc.sinks.opensearch.record import KEPT
from tests.contract.control_store import ControlStoreSuite, StoreBench
from tests.contract.control_worker import opened

STAMP = Stamp(3, {"file": "bin.7"}, {"shop.orders": TopicOffsets("T1", {0: 5})})


def asked(url: str, path: str, body: Mapping[str, Any] | None = None, method: str = "POST") -> Any:
    """The node's answer, by the standard library alone."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/{path}", data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def put(url: str, index: str, number: int, *, deleted: bool = False) -> None:
    """A document, as a writer would write it."""
    document = {"cdc_id": str(number), **({"cdc_deleted": True} if deleted else {"id": number})}
    asked(url, f"{index}/_doc/{number}?refresh=true", document, "PUT")


def read(url: str, namespace: str) -> list[int]:
    """The ids that a reader of the alias finds."""
    hits = asked(url, f"{namespace}.orders/_search", {"size": 100})["hits"]["hits"]
    return sorted(hit["_source"]["id"] for hit in hits)


def committed(sink: SearchSink, stage: Stage, summary: Mapping[str, str]) -> int:
    """A commit to a stage; returns its version."""
    seen = sink.records.see(stage.index)
    return sink.commit(stage, seen, seen.record, summary)


def test_a_new_table_is_empty_and_is_made_once(shop: SearchSink, namespace: str) -> None:
    facts = shop.facts(namespace, "orders")
    assert (facts.exists, facts.rows, facts.stamp) == (True, 0, None)
    assert shop.ensure_table(namespace, "orders", ()) is False
    assert shop.facts(namespace, "other").exists is False


def test_a_creation_that_was_cut_is_finished(sink: SearchSink, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(SearchSink, "_move_alias", lambda *_: (_ for _ in ()).throw(UnknownStateError("cut")))
        with pytest.raises(UnknownStateError):
            sink.ensure_table(namespace, "orders", ())
    assert not sink.exists(namespace, "orders")
    sink.ensure_table(namespace, "orders", ())
    assert sink.facts(namespace, "orders").rows == 0


def test_readers_see_a_stage_only_once_it_is_published(shop: SearchSink, namespace: str, search_url: str) -> None:
    stage = shop.stage(namespace, "orders", "recov_1_1")
    for number in (1, 2):
        put(search_url, stage.index, number)
    put(search_url, stage.index, 3, deleted=True)
    verified = committed(shop, stage, STAMP.to_summary())
    assert read(search_url, namespace) == []
    shop.publish(stage, verified, stage.base_head)
    assert read(search_url, namespace) == [1, 2]
    facts = shop.facts(namespace, "orders")
    assert (facts.head, facts.rows, facts.stamp) == (verified, 2, STAMP.at(verified))
    assert shop.publish(stage, verified, stage.base_head).already


def test_a_publish_is_refused_over_a_commit_of_another(shop: SearchSink, namespace: str) -> None:
    stage = shop.stage(namespace, "orders", "recov_1_1")
    verified = committed(shop, stage, STAMP.to_summary())
    shop.commit_nothing(namespace, "orders", Stamp(9).to_summary())
    assert not shop.publishable(stage)
    with pytest.raises(StaleHeadError, match=r"cdc\.epoch"):
        shop.publish(stage, verified, stage.base_head)
    assert shop.target(namespace, "orders").record.index != stage.index


def test_only_the_verified_version_is_published(shop: SearchSink, namespace: str) -> None:
    stage = shop.stage(namespace, "orders", "recov_1_1")
    verified = committed(shop, stage, STAMP.to_summary())
    committed(shop, stage, STAMP.to_summary())
    with pytest.raises(StaleHeadError, match="not at the verified"):
        shop.publish(stage, verified, stage.base_head)


def test_an_interrupted_publish_is_finished_and_nobody_commits_meanwhile(
    shop: SearchSink, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = shop.stage(namespace, "orders", "recov_1_1")
    verified = committed(shop, stage, STAMP.to_summary())
    live = shop.stage_for_changes(namespace, "orders", "apply_1")
    with monkeypatch.context() as patched:
        patched.setattr(SearchSink, "_move_alias", lambda *_: (_ for _ in ()).throw(UnknownStateError("cut")))
        with pytest.raises(UnknownStateError):
            shop.publish(stage, verified, stage.base_head)
    with pytest.raises(StaleHeadError, match="taking the alias over"):
        committed(shop, live, {})
    shop.publish(stage, verified, stage.base_head)
    assert shop.facts(namespace, "orders").head == verified


def test_a_table_whose_interrupted_publish_was_given_up_can_be_written_again(
    shop: SearchSink, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = shop.stage(namespace, "orders", "recov_1_1")
    verified = committed(shop, stage, STAMP.to_summary())
    with monkeypatch.context() as patched:
        patched.setattr(SearchSink, "_move_alias", lambda *_: (_ for _ in ()).throw(UnknownStateError("cut")))
        with pytest.raises(UnknownStateError):
            shop.publish(stage, verified, stage.base_head)
    shop.drop_stage(stage)
    live = shop.stage_for_changes(namespace, "orders", "apply_1")
    assert committed(shop, live, STAMP.to_summary()) == shop.facts(namespace, "orders").head


def test_dropping_a_published_stage_removes_what_it_replaced(shop: SearchSink, namespace: str, search_url: str) -> None:
    old = shop.target(namespace, "orders").record.index
    stage = shop.stage(namespace, "orders", "recov_1_1")
    put(search_url, stage.index, 1)
    shop.publish(stage, committed(shop, stage, {}), stage.base_head)
    assert [one.label for one in shop.stages(namespace, "orders")] == ["recov_1_1"]
    shop.drop_stage(stage)
    shop.drop_stage(stage)
    assert read(search_url, namespace) == [1]
    assert shop.records.find(old) is None
    assert shop.stages(namespace, "orders") == ()


def test_a_later_try_takes_the_documents_with_their_versions_over(
    shop: SearchSink, namespace: str, search_url: str
) -> None:
    first = shop.stage(namespace, "orders", "recov_1_1")
    url = f"{first.index}/_doc/1?version=77&version_type=external&refresh=true"
    asked(search_url, url, {"cdc_id": "1", "id": 1}, "PUT")
    version = committed(shop, first, STAMP.to_summary())
    second = shop.stage(namespace, "orders", "recov_1_1_v1", from_stage=first)
    assert shop.stage_head(second) == version
    assert [commit.stamp for commit in shop.stage_chain(second)] == [STAMP.at(version)]
    assert asked(search_url, f"{second.index}/_doc/1", method="GET")["_version"] == 77


def test_an_alias_of_somebody_else_is_refused(sink: SearchSink, namespace: str, search_url: str) -> None:
    asked(search_url, f"mine-{namespace}", {"aliases": {f"{namespace}.orders": {}}}, "PUT")
    with pytest.raises(SinkError, match="not one index made here"):
        sink.ensure_table(namespace, "orders", ())


def test_a_record_keeps_its_newest_stamp_however_many_commits_follow(shop: SearchSink, namespace: str) -> None:
    shop.commit_nothing(namespace, "orders", STAMP.to_summary())
    for _ in range(KEPT + 3):
        shop.commit_nothing(namespace, "orders", {})
    record = shop.target(namespace, "orders").record
    assert len(record.commits) == KEPT + 1
    assert shop.stamp(namespace, "orders") == STAMP.at(record.commits[0].version)


def test_a_node_that_is_gone_is_unknown_and_not_empty() -> None:
    gone = SearchSink(OpenSearchEndpoint("http://127.0.0.1:9", password="hush", user="u"))
    with pytest.raises(UnknownStateError) as caught:
        gone.facts("shop", "orders")
    assert "hush" not in str(caught.value)


def test_letters_are_kept_once_counted_and_resolved_by_a_fence(sink: SearchSink, namespace: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    letters = [DeadLetter("t", "T1", 0, offset, b"\xff", None, "shop.orders", "bad", 1, now) for offset in (4, 5)]
    dead_letters.record(sink.session, namespace, letters)
    dead_letters.record(sink.session, namespace, [replace(letters[0], reason="worse")])
    assert sink.unresolved_letters(namespace) == (replace(letters[0], reason="worse", attempts=2), letters[1])
    assert sink.unresolved_letters("another") == ()
    fence = {"shop.orders": {"t": TopicOffsets("T1", {0: 5})}}
    assert sink.resolve_letters_before(namespace, fence) == 1
    assert sink.unresolved_letters(namespace, "shop.orders") == (letters[1],)
    assert sink.waiting_letters(namespace) == 1


@dataclass(frozen=True)
class SearchBench:
    """The node, whose control documents are removed before each test."""

    url: str

    @property
    def spec(self) -> dict[str, Any]:
        return {"search": self.url}

    def open(self) -> ControlStore:
        return opened(self.spec)


class TestOpenSearchControlStore(ControlStoreSuite):
    """The suite of control stores."""

    @pytest.fixture
    def bench(self, sink: SearchSink, search_url: str) -> StoreBench:
        sink.session.client.indices.delete(index=CONTROL, params={"ignore_unavailable": "true"})
        assert OpenSearchControlStore(sink).load("shop") is None
        return SearchBench(search_url)
