"""What is stored for pages: round trip, age, retention, whole files, a list that keeps the newest."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import Ahead, SinkFacts, Unknown
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis, Other
from airflow_cdc.plugin import view
from airflow_cdc.reports import store as reports
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import (
    CHECK,
    KEPT_CHANGES,
    KEPT_RUNS,
    RunSummary,
    StoredObservation,
    verified_through,
    with_run,
)
from tests.diagnosing import diagnose
from tests.unit.builders import FAILED, GTID_OFFSET, HEALTHY, file_offset, seen, with_connector, with_source
from tests.unit.core.test_report import BAD, PAIR, REPORT, TABLE
from tests.unit.fuzzing import DELETED, paths, replaced, some_json

MOMENT = "2026-11-24T09:00:00+00:00"


def kept(obs: Any, before: StoredObservation | None = None) -> StoredObservation:
    return StoredObservation.of(obs, diagnose(obs), before)


def summary(number: int, **changes: Any) -> RunSummary:
    facts = {"run_id": f"r{number}", "folder": f"r{number}", "kind": "recovery", "problem": "GTID_PURGED"}
    at = f"2026-11-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00+00:00"
    made = {**facts, "strategy": "full_snapshot", "verdict": "MATCH", "ended_at": at, "seconds": 1.0, **changes}
    return read(RunSummary, made)


QUEUED = replace(
    HEALTHY, sink=SinkFacts({}, ahead={"shop": Ahead(3, 2, "2026-11-24T09:00:00+00:00", TopicOffsets("", {0: 7}))})
)


@pytest.mark.parametrize("obs", [HEALTHY, seen(source=Unknown("refused")), with_connector(offset=None), QUEUED])
def test_an_observation_survives_being_stored(obs: Any) -> None:
    made = kept(obs)
    assert read(StoredObservation, json.loads(json.dumps(plain(made)))) == made


def test_positions_and_what_lies_between() -> None:
    made = kept(HEALTHY)
    assert (made.stored, made.oldest, made.newest) == (
        "mysql-bin.000009:500",
        "mysql-bin.000008:4",
        "mysql-bin.000010:1000",
    )
    assert made.behind == 20
    assert made.retention is not None
    assert (made.retention.margin_bytes, made.retention.log_bytes, made.retention.left) == (1500, 3000, 0.5)


@pytest.mark.parametrize(
    ("file", "margin"),
    [("mysql-bin.000008", 500), ("mysql-bin.000007", 0), ("mysql-bin.000011", None), ("other.000009", None)],
)
def test_retention_is_unknown_where_the_server_can_not_tell(file: str, margin: int | None) -> None:
    retention = kept(with_connector(offset=file_offset(file))).retention
    assert (retention.margin_bytes if retention else None) == margin


def test_nothing_is_left_once_transactions_are_purged_that_were_not_read() -> None:
    executed = HEALTHY.source.gtid_executed  # type: ignore[union-attr]
    retention = kept(with_source(gtid_purged=executed)).retention
    assert retention is not None
    assert (retention.margin_bytes, retention.left) == (0, 0.0)


def test_what_can_not_be_read_is_unknown_and_not_a_number() -> None:
    made = kept(seen(source=Unknown("refused")))
    assert (made.oldest, made.newest, made.behind, made.retention) == (None, None, None, None)
    assert made.unknowns == {"source": "refused"}


def test_both_rows_are_those_that_the_report_names(tmp_path: Path) -> None:
    store, bad = ReportStore(str(tmp_path)), replace(BAD, samples=(PAIR.sample,))
    made = replace(REPORT, tables=(bad,), verdict=None)
    assert store.rows(made) == {}
    settled = replace(PAIR, key="9")  # kept by an earlier try of the run, and equal since
    told = json.dumps([plain(PAIR), plain(settled)])
    store.write(told, "shop", "manual__1", "rows-shop.events.json")
    assert store.rows(made) == {"shop.events": [PAIR]}
    assert store.rows(replace(REPORT, tables=(replace(TABLE, table="shop.events"),))) == {}
    store.write("{", "shop", "manual__1", "rows-shop.events.json")
    assert store.rows(made) == {}  # a report stands without them


def test_a_change_of_the_problem_is_noted_once() -> None:
    broken = with_connector(**FAILED)
    first = kept(HEALTHY)
    second = kept(broken, first)
    third = kept(broken, second)
    assert [change.code for change in third.changes] == ["HEALTHY", "CONNECTOR_FAILED"]
    many = third
    for number in range(KEPT_CHANGES + 5):
        many = kept(broken if number % 2 else HEALTHY, many)
    assert len(many.changes) == KEPT_CHANGES


def test_no_secret_of_the_connector_is_stored() -> None:
    config = {"database.password": "s3cret", "topic.prefix": "shop"}
    trace = FAILED["tasks"][0].__class__(0, "FAILED", "X: password=s3cret")
    text = json.dumps(plain(kept(with_connector(config=config, tasks=(trace,), offset=GTID_OFFSET))))
    assert "s3cret" not in text


def test_the_list_of_runs_keeps_the_newest_and_each_once() -> None:
    runs: list[RunSummary] = []
    for number in range(KEPT_RUNS + 10):
        runs = with_run(runs, summary(number))
    assert [run.run_id for run in runs] == [f"r{n}" for n in range(KEPT_RUNS + 9, 9, -1)]
    again = with_run(runs, summary(30, verdict="MISMATCH"))
    assert len(again) == KEPT_RUNS
    assert next(run for run in again if run.run_id == "r30").verdict == "MISMATCH"


def test_a_table_differs_until_a_run_has_proven_it_equal() -> None:
    runs = with_run([], summary(1, kind="check", differs=["shop.orders", "shop.items"]))
    runs = with_run(runs, summary(2, kind="recovery", verdict="INCONCLUSIVE"))
    runs = with_run(runs, summary(3, kind="repair"), frozenset({"shop.orders"}))
    assert [run.differs for run in runs] == [
        ("shop.items",),
        ("shop.items", "shop.orders"),
        ("shop.items", "shop.orders"),
    ]
    # the same run once more, after its repair
    runs = with_run(runs, summary(4, kind="check", differs=["shop.orders"]))
    runs = with_run(runs, summary(4, kind="repair"), frozenset({"shop.orders", "shop.items"}))
    assert [run.differs for run in runs][:2] == [(), ("shop.items",)]


def test_a_list_that_was_written_by_an_earlier_version_is_read() -> None:
    made = plain(summary(1))
    del made["dag_id"], made["differs"]
    assert read(RunSummary, made) == summary(1)


@pytest.fixture(params=["disk", "object store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ReportStore:
    return ReportStore(str(tmp_path / "reports") if request.param == "disk" else f"memory://{tmp_path.name}/reports")


def test_stores_on_a_disk_and_in_an_object_store(store: ReportStore) -> None:
    made = kept(HEALTHY)
    assert (store.observation("shop"), store.runs("shop"), store.report("shop", "manual__1")) == (None, [], None)
    store.keep_observation(made)
    store.keep_report(REPORT)
    store.keep_run("shop", RunSummary.of(REPORT, "manual__1", "2026-11-21T09:00:00+00:00"))
    assert store.observation("shop") == made
    report = store.report("shop", "manual__1")
    assert report is not None
    assert report.to_json() == REPORT.to_json()
    assert [(run.run_id, run.verdict) for run in store.runs("shop")] == [("manual__1", "MATCH")]
    assert store.many(store.observation, ["shop", "other"]) == {"shop": made, "other": None}


def test_what_is_not_understood_is_one_error_that_names_the_file(store: ReportStore) -> None:
    store.write('{"pipeline": "shop"}', "shop", "observation.json")
    with pytest.raises(
        CdcError, match=r"has an unknown form: ValueError StoredObservation.* missing \(.*shop/observation\.json\)"
    ):
        store.observation("shop")
    store.write("[{]", "shop", "runs.json")
    store.keep_run("shop", summary(1))  # an index that is torn is begun anew
    assert [run.run_id for run in store.runs("shop")] == ["r1"]


def test_who_was_overwritten_by_another_writes_again(store: ReportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real, others = ReportStore.write, [summary(2)]

    def write(self: ReportStore, text: str, *parts: str) -> str:
        location = real(self, text, *parts)
        if others:  # another run ends at the same time, and has not seen this one
            real(self, json.dumps([plain(others.pop())]), *parts)
        return location

    monkeypatch.setattr(ReportStore, "write", write)
    store.keep_run("shop", summary(1))
    assert [run.run_id for run in store.runs("shop")] == ["r2", "r1"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ReportStore(str(tmp_path))
    store.write("old", "shop", "observation.json")

    def torn(self: Path, target: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", torn)
    with pytest.raises(CdcError, match="can't write the stored file: OSError"):
        store.write("new", "shop", "observation.json")
    assert store.read("shop", "observation.json") == b"old"
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["observation.json"]


def test_evidence_has_a_size_however_many_tables_and_however_long_a_trace() -> None:
    long = {f"table {number}": "x" * 100_000 for number in range(2_000)}
    found = Diagnosis("UNKNOWN", "d", long, ("none",), "r", others=(Other("X", "d", long, "r"),))
    assert len(json.dumps(plain(found))) < 1_000_000
    assert found.evidence["and"] == "1901 more"
    assert read(Diagnosis, json.loads(json.dumps(plain(found)))) == found


IDS = (
    "a:b", "a+b", "a/b", "a_b", "a b", "observation.json", "runs.json", "silences.json", "offsets", ".", "..", "../../etc",
    "manual__2026-11-21T09:00:00+00:00", "manual__2026-11-21T09_00_00_00_00", "é", "x" * 250, "x" * 251, "a=b",
)  # fmt: skip


def test_every_run_has_a_folder_of_its_own_that_is_no_file_s_name() -> None:
    folders = {run_id: reports.safe(run_id) for run_id in IDS}
    assert len(set(folders.values())) == len(IDS)
    assert not {*folders.values()} & {"observation.json", "runs.json", "silences.json", "offsets", ".", ".."}
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.~=-]{0,210}", folder) for folder in folders.values())
    assert {reports.safe(folder) for folder in folders.values()} == {*folders.values()}  # also found by its folder
    assert folders["manual__2026-11-21T09:00:00+00:00"].startswith("manual__2026-11-21T09_00_00_00_00=")


def test_runs_named_like_our_files_and_like_each_other_keep_their_reports(tmp_path: Path) -> None:
    store = ReportStore(str(tmp_path))
    for run_id in ("observation.json", "a:b", "a+b"):
        store.keep_report(replace(REPORT, run_id=run_id))
    store.keep_observation(kept(HEALTHY))
    assert [getattr(store.report("shop", one), "run_id", None) for one in ("observation.json", "a:b", "a+b")] == [
        "observation.json", "a:b", "a+b",
    ]  # fmt: skip
    assert store.observation("shop") is not None


def test_reports_hold_rows_so_only_their_owner_may_read_them(tmp_path: Path) -> None:
    store = ReportStore(str(tmp_path / "reports"))
    store.keep_report(REPORT)
    made = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "reports").rglob("*")}
    assert made == {"shop": "0o700", "manual__1": "0o700", "report.json": "0o600"}
    assert (tmp_path / "reports").stat().st_mode & 0o777 == 0o700


class Refusing:
    """An object store whose library has errors of its own, as botocore and Azure's have."""

    protocol = "s3"

    def cat_file(self, path: str) -> bytes:
        raise type("ClientError", (Exception,), {})(f"503 SlowDown {path}?X-Amz-Signature=abcdef")

    def makedirs(self, path: str, **_: object) -> None:
        self.cat_file(path)


@pytest.mark.parametrize("doing", ["read", "write", "open"])
def test_an_error_of_an_object_store_is_one_of_ours_without_its_signature(
    doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ReportStore("s3://bucket/reports")
    opened = ReportStore.__dict__["_opened"]

    def refuse(_url: str) -> Any:
        raise type("NoCredentialsError", (Exception,), {})("no credentials")

    if doing == "open":
        monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    else:
        monkeypatch.setattr(opened, "func", lambda _self: (Refusing(), "bucket/reports"))
    with pytest.raises(
        CdcError, match=r"can't (read|write|open) the stored file: (Client|NoCredentials)Error"
    ) as error:
        store.write("x", "shop", "y") if doing == "write" else store.read("shop", "y")
    assert "abcdef" not in str(error.value)


def test_the_overview_shows_every_pipeline_whatever_one_of_them_stored(tmp_path: Path) -> None:
    """Damaged files are read, or are that pipeline's error with the file's name; none is an error of the page."""
    store, rng, now = ReportStore(str(tmp_path)), random.Random(20261127), datetime.now(UTC)
    good = {
        "observation.json": plain(kept(QUEUED)),
        "runs.json": [plain(summary(1, verified_through={"shop.t": "2026-11-21T09:00:00+00:00"}, differs=["shop.t"]))],
        "silences.json": [
            {"by": "a", "at": MOMENT, "until": MOMENT, "reason": "r", "code": "", "ended_at": "", "ended_by": ""}
        ],
    }
    store.keep_observation(replace(kept(HEALTHY), pipeline="good"))
    odd = [DELETED, "0001-01-01T00:00:00+00:00", "2026-01-01T00:00:00", 1e308, [[]]]
    unread = 0
    for _ in range(600):
        damaged = dict(good)
        name = rng.choice(list(good))
        path = rng.choice(paths(good[name]))
        damaged[name] = replaced(good[name], path, rng.choice([*odd, some_json(rng)]))
        for file, document in damaged.items():
            store.write(json.dumps(document), "shop", file)
        rows = {row.name: row for row in view.overview(store, ["good", "shop"], now)}
        assert rows.keys() == {"good", "shop"}
        assert rows["good"].error == ""
        one = rows["shop"]
        assert "unexpected" not in (one.error or ""), (one.error, name, path)
        unread += bool(one.error)
    assert 200 < unread < 600


def test_inv_35_a_proof_never_goes_back_and_stays_through_other_runs() -> None:
    """Of each table the latest time is kept, whatever later runs say of it or of others."""

    def listed(run_id: str, **through: str) -> RunSummary:
        ended = f"2026-11-2{run_id}T09:00:00+00:00"
        verdict = Verdict.MATCH if through else Verdict.INCONCLUSIVE
        return RunSummary(run_id, run_id, CHECK, "HEALTHY", "none", verdict, ended, 1.0, verified_through=through)

    runs = with_run([], listed("1", orders="2026-11-21T02:00:00.000+00:00", items="2026-11-21T02:00:00.000+00:00"))
    runs = with_run(runs, listed("2", orders="2026-11-22T02:00:00+00:00"))
    runs = with_run(runs, listed("3"))
    runs = with_run(runs, listed("4", orders="2026-11-20T02:00:00+00:00"))
    assert dict(verified_through(runs)) == {
        "items": "2026-11-21T02:00:00.000+00:00",
        "orders": "2026-11-22T02:00:00+00:00",
    }
    assert read(RunSummary, plain(runs[0])) == runs[0]


def test_a_failed_task_is_named_beside_the_state_of_a_connector_that_runs() -> None:
    assert kept(HEALTHY).connector == "RUNNING"
    assert kept(with_connector(**FAILED)).connector == "RUNNING, task 0 FAILED"
