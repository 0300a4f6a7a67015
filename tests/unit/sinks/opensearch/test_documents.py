"""Records and control documents over a cluster that compares and sets: what is written, what is refused, and what is said."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opensearchpy.exceptions import ConflictError, NotFoundError, RequestError, TransportError
from opensearchpy.exceptions import ConnectionError as Unreachable

from airflow_cdc.core.errors import CdcError, SinkError, StaleHeadError, UnknownStateError
from airflow_cdc.core.ports.control import StoredDocument
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.control import OpenSearchControlStore
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.sinks.opensearch.indexes import CONTROL, PREFIX, RECORDS, alias_of
from airflow_cdc.sinks.opensearch.record import Record, Records
from airflow_cdc.sinks.opensearch.session import CONFLICT, NOT_FOUND, Session, explained, reason_of, status_of

URL = "http://search:9200"
RECORD = Record("cdc-a", "shop", "orders", "first", columns=(("id", "bigint"),), properties={"a": "1"}, since=5.0)


class Cluster:
    """Documents by index and id, with the sequence number and primary term that a change of them has to name."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], tuple[dict[str, Any], int]] = {}
        self.made: dict[str, dict[str, Any]] = {}
        self.aliases: dict[str, list[str]] = {}
        self.seq_no, self.refuses = 6, ""
        self.indices = SimpleNamespace(exists=self._exists, create=self._create, get_alias=self._get_alias)

    def _exists(self, *, index: str) -> bool:
        return index in self.made

    def _create(self, *, index: str, body: dict[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        assert params == {"ignore": 400}
        if self.refuses:
            return {"error": {"type": self.refuses, "reason": "no room"}}
        self.made[index] = body
        return {"acknowledged": True}

    def _get_alias(self, *, name: str) -> dict[str, Any]:
        if name not in self.aliases:
            raise NotFoundError(404, "missing", {})
        return {index: {} for index in self.aliases[name]}

    def get(self, *, index: str, id: str) -> dict[str, Any]:  # noqa: A002 - the client's own name
        if (index, id) not in self.documents:
            raise NotFoundError(404, "missing", {})
        source, seq_no = self.documents[index, id]
        return {"_source": source, "_seq_no": seq_no, "_primary_term": 3}

    def mget(self, *, index: str, body: dict[str, Any]) -> dict[str, Any]:
        found = [(one, self.documents.get((index, one))) for one in body["ids"]]
        return {
            "docs": [
                {"_id": one, "found": doc is not None, **({"_source": doc[0]} if doc else {})} for one, doc in found
            ]
        }

    def create(self, *, index: str, id: str, body: dict[str, Any]) -> None:  # noqa: A002
        if (index, id) in self.documents:
            raise ConflictError(409, "conflict", {})
        self._put(index, id, body)

    def index(self, *, index: str, id: str, body: dict[str, Any], params: Mapping[str, Any]) -> None:  # noqa: A002
        known = self.documents.get((index, id))
        if params == {"op_type": "create"}:
            fits = known is None
        else:
            assert params.keys() == {"if_seq_no", "if_primary_term"}
            fits = known is not None and (str(params["if_seq_no"]), str(params["if_primary_term"])) == (
                str(known[1]),
                "3",
            )
        if not fits:
            raise ConflictError(409, "conflict", {})
        self._put(index, id, body)

    def delete(self, *, index: str, id: str) -> None:  # noqa: A002
        if self.documents.pop((index, id), None) is None:
            raise NotFoundError(404, "missing", {})

    def _put(self, index: str, one: str, body: dict[str, Any]) -> None:
        self.seq_no += 1
        self.documents[index, one] = body, self.seq_no


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def sink(cluster: Cluster) -> SearchSink:
    made = SearchSink(OpenSearchEndpoint(URL))
    made.session._clients = {os.getpid(): cast("Any", cluster)}
    return made


@pytest.fixture
def records(sink: SearchSink) -> Records:
    return Records(sink.session)


# --- records ------------------------------------------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written_and_a_second_one_of_its_name_changes_nothing(
    records: Records, cluster: Cluster
) -> None:
    assert (records.find("cdc-a"), records.of(["cdc-a"])) == (None, ())
    full = replace(RECORD.with_commit(3, {"cdc.epoch": "1"}), base_index="cdc-b", base_version=7, copied=True)
    records.create(full)
    records.create(RECORD)
    assert (records.see("cdc-a").record, records.of(["cdc-x", "cdc-a"]), records.of([])) == (full, (full,), ())
    # no field of a record is searched for, and one lost node loses no commit
    assert cluster.made[RECORDS]["mappings"] == {"dynamic": False}
    assert cluster.made[RECORDS]["settings"] == {"number_of_shards": 1, "auto_expand_replicas": "0-1"}
    records.delete("cdc-a")
    records.delete("cdc-a")
    with pytest.raises(UnknownStateError, match="index cdc-a has no record"):
        records.see("cdc-a")


def test_a_change_of_a_record_is_refused_once_another_writer_changed_it(records: Records) -> None:
    records.create(RECORD)
    seen = records.see("cdc-a")
    records.swap(seen, replace(RECORD, label="mine"))
    assert records.see("cdc-a").record.label == "mine"
    with pytest.raises(StaleHeadError, match="another writer committed meanwhile"):
        records.swap(seen, replace(RECORD, label="theirs"))
    assert records.see("cdc-a").record.label == "mine"


def test_a_change_that_depends_on_no_commit_is_made_on_the_newest_record(records: Records, cluster: Cluster) -> None:
    records.create(RECORD)
    others = ["one", "two"]

    def change(now: Record) -> Record:
        if others:
            records.swap(records.see("cdc-a"), replace(now, label=others.pop()))
        return replace(now, successor="cdc-b")

    after = records.change("cdc-a", change)
    assert (after.label, after.successor) == ("one", "cdc-b")
    assert records.see("cdc-a").record == after
    before = cluster.seq_no
    assert records.change("cdc-a", lambda now: now) == after
    assert cluster.seq_no == before  # nothing to write


def test_writers_that_never_stop_end_a_change_with_a_stale_head(records: Records) -> None:
    records.create(RECORD)
    tries: list[int] = []

    def change(now: Record) -> Record:
        tries.append(1)
        records.swap(records.see("cdc-a"), replace(now, label=f"{len(tries)}"))
        return replace(now, successor="cdc-b")

    with pytest.raises(StaleHeadError):
        records.change("cdc-a", change)
    assert len(tries) == 5


@pytest.mark.parametrize(("refuses", "todo"), [("resource_already_exists_exception", None), ("limit", "no room")])
def test_an_index_that_somebody_else_made_meanwhile_is_there_and_one_that_is_refused_is_not(
    records: Records, cluster: Cluster, refuses: str, todo: str | None
) -> None:
    cluster.refuses = refuses
    if todo is None:
        records.create(RECORD)
        assert records.see("cdc-a").record == RECORD
    else:
        with pytest.raises(UnknownStateError, match=f"the index cannot be created: {todo}"):
            records.create(RECORD)


# --- control documents --------------------------------------------------------------------------------------------------------


def test_a_control_document_is_written_as_it_was_last_seen_alone(sink: SearchSink, cluster: Cluster) -> None:
    store = OpenSearchControlStore(sink)
    assert store.load("shop") is None
    store.swap("shop", None, "first")
    seen = store.load("shop")
    assert seen == StoredDocument("first", "7.3")
    with pytest.raises(StaleHeadError, match="the document is not at None any more"):
        store.swap("shop", None, "again")
    store.swap("shop", seen.version, "second")
    with pytest.raises(StaleHeadError, match=r"the document is not at 7\.3 any more") as stale:
        store.swap("shop", seen.version, "third")
    assert stale.value.where == store.place("shop") == "control document cdc_control/shop"
    assert store.load("shop") == StoredDocument("second", "8.3")
    # the text is never searched, and a lost node loses no epoch
    assert cluster.made[CONTROL] == {
        "mappings": {"dynamic": False},
        "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"},
    }


# --- aliases ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        (None, None),
        ([f"{PREFIX}a"], f"{PREFIX}a"),
        (["theirs"], SinkError),
        ([f"{PREFIX}a", f"{PREFIX}b"], SinkError),
        ([f"{PREFIX}a", "theirs"], SinkError),
        ([], SinkError),
    ],
    ids=["no alias", "ours", "another's", "two of ours", "ours and another's", "none"],
)
def test_a_table_is_the_one_index_of_ours_behind_its_alias(
    sink: SearchSink, cluster: Cluster, indexes: list[str] | None, found: Any
) -> None:
    """Rows that were written to another's index could not be taken back."""
    if indexes is not None:
        cluster.aliases[alias_of("shop", "orders")] = indexes
    if found is SinkError:
        with pytest.raises(SinkError, match="which is not one index made here") as refused:
            sink.index_behind("shop", "orders")
        assert all(index in refused.value.what for index in indexes or ())
    else:
        assert sink.index_behind("shop", "orders") == found
        assert sink.exists("shop", "orders") is (found is not None)


# --- errors -------------------------------------------------------------------------------------------------------------------

BODY = {"error": {"type": "some_exception", "reason": "because"}}


@pytest.mark.parametrize(
    ("error", "kind", "said", "todo"),
    [
        (TransportError(400, "bad", BODY), SinkError, "400 some_exception: because", ""),
        (TransportError(401, "who", BODY), SinkError, "401 some_exception: because", "login and password"),
        (TransportError(403, "no", BODY), SinkError, "403 some_exception: because", "permissions"),
        (TransportError(404, "gone", {"error": "text"}), SinkError, "404 text", ""),
        (TransportError(409, "conflict", {}), SinkError, "409 conflict", ""),
        (TransportError(429, "busy", "not JSON"), UnknownStateError, "429 busy", "try again"),
        (TransportError(499, "odd", {}), SinkError, "499 odd", ""),
        (TransportError(500, "broken", BODY), UnknownStateError, "500 some_exception: because", "try again"),
        (TransportError(503, "down", BODY), UnknownStateError, "503 some_exception: because", "try again"),
        (Unreachable("N/A", "refused", Exception("no route")), UnknownStateError, "refused", "try again"),
    ],
    ids=lambda one: str(getattr(one, "args", one))[:20],
)
def test_what_the_cluster_refuses_is_told_from_what_it_cannot_answer(
    error: TransportError, kind: type[CdcError], said: str, todo: str
) -> None:
    told = explained(error, "write the record", "index a")
    assert type(told) is kind
    assert (told.what, told.where) == (f"write the record: {reason_of(error)}", "index a")
    assert said in told.what
    assert todo in told.todo
    assert bool(told.todo) is bool(todo)


def test_an_error_names_the_place_that_was_asked_for_or_else_the_cluster() -> None:
    session = Session(OpenSearchEndpoint(URL))
    session._clients = {os.getpid(): cast("Any", Cluster())}
    for where, named in (("index a", "index a"), ("", session.endpoint.where)):
        with pytest.raises(SinkError) as caught, session.asked("read", where):
            raise RequestError(400, "bad", {})
        assert caught.value.where == named
    assert session.endpoint.where


def test_statuses_are_those_of_http() -> None:
    assert (CONFLICT, NOT_FOUND) == (409, 404)
    assert status_of(ConflictError(CONFLICT, "", {})) == 409
    assert status_of(Unreachable("N/A", "", Exception())) is None
