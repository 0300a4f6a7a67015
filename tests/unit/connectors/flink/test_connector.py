"""What is done to a Flink job and from where it starts again, over a made JobManager: the real one runs in tests/integration/flink.

Its answers are shaped as Flink 1.20.3 gives them; the savepoint is a real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_cdc.connectors.flink import connector as flink
from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.connectors.flink.rest import FlinkRest
from airflow_cdc.connectors.flink.start import Start, StartFile
from airflow_cdc.core.errors import ConnectorError, DeadlineError
from airflow_cdc.core.offset import Inside, OffsetEntry, RawOffset
from airflow_cdc.core.position import Watermark
from tests.unit.builders import UUID, WATERMARK
from tests.unit.clocks import waiting
from tests.unit.connectors.flink.test_checkpoint import OFFSET, REAL
from tests.unit.connectors.flink.test_plan import OPTIONS, node, source, write

TRACE = "java.lang.RuntimeException: the log was purged"
DECIDED: RawOffset = {"file": "mysql-bin.000009", "pos": "4", "kind": "SPECIFIC"}


@dataclass
class JobManager:
    """The jobs of a cluster. `told`: what it was told, in order.

    `fails`: what stopping a job with a savepoint ends with, and `meanwhile` what is known of the job by then.
    """

    folder: Path
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: list[Any] = field(default_factory=list)
    fails: ConnectorError | None = None
    meanwhile: dict[str, Any] = field(default_factory=dict)
    deleted_on_cancel: bool = False
    interval: int = 1_000

    def add(self, job: str = "j1", state: str = "RUNNING", *, ran: int = 60_001, **more: Any) -> dict[str, Any]:
        """A job that has been in this state for `ran` milliseconds, and that stored its state."""
        self.jobs[job] = {
            "jid": job,
            "name": "shop",
            "state": state,
            "now": 1_000_000,
            "start-time": 1_000 + len(self.jobs),
            "end-time": -1 if state not in ("FAILED", "CANCELED", "FINISHED") else 999_000,
            "timestamps": {"RUNNING": 1_000_000 - ran},
            "vertices": [{"status": "RUNNING", "name": "Source: t[1]"}],
            "failures": 0,
            "latest": {"completed": {"id": 5, "external_path": self.state("chk-5")}},
            **more,
        }
        return self.jobs[job]

    def state(self, name: str) -> str:
        """The path of a stored state that is there."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        (path / "_metadata").write_bytes(REAL)
        return str(path)

    # ---- what FlinkRest does

    def overview(self) -> list[dict[str, Any]]:
        return list(self.jobs.values())

    def of_job(self, job: str, what: str = "") -> dict[str, Any]:
        one = self.jobs[job]
        entry = {"timestamp": 900_000 + one["failures"], "stacktrace": TRACE}
        return {
            "": one,
            "exceptions": {"exceptionHistory": {"entries": [entry] * one["failures"]}},
            "checkpoints": {"latest": one["latest"]},
            "config": {"execution-config": {"restart-strategy": "fixed delay"}},
        }[what]

    def checkpoint_settings(self, _job: str) -> dict[str, Any] | None:
        kept = {"delete_on_cancellation": self.deleted_on_cancel}
        return {"interval": self.interval, "externalization": kept} if self.interval else None

    def stop_with_savepoint(self, job: str, _timeout: float) -> str:
        self.told.append(f"stop {job}")
        self.jobs[job] |= self.meanwhile
        if self.fails is not None:
            raise self.fails
        path = self.state("savepoint-1")
        self.jobs[job]["latest"]["savepoint"] = {"id": 6, "external_path": path}
        self.jobs[job] |= {"state": "FINISHED", "end-time": 1_000_000}
        return path

    def cancel(self, job: str) -> None:
        self.told.append(f"cancel {job}")
        self.jobs[job] |= {"state": "CANCELED", "end-time": 1_000_000}

    def execute_plan(self, _path: str, properties: dict[str, str], _timeout: float) -> str:
        self.told.append(dict(properties))
        self.add("j9")
        return "j9"


@pytest.fixture
def cluster(tmp_path: Path) -> JobManager:
    return JobManager(tmp_path)


@pytest.fixture
def job(cluster: JobManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FlinkConnector:
    """The connector of the job `shop`, with its plan; waits cost nothing."""
    waiting(monkeypatch, flink)
    return connector(cluster, tmp_path)


def connector(cluster: JobManager, folder: Path, *nodes: dict[str, Any], **endpoint: Any) -> FlinkConnector:
    write(folder / "plan.json", *(nodes or (source(1, OPTIONS), node(2), node(3))))
    made = FlinkConnector(FlinkEndpoint("http://jm:8081", plan=str(folder / "plan.json"), **endpoint), FlinkCodec())
    made._rest = cast("FlinkRest", cluster)
    return made


def start_of(cluster: JobManager) -> Start | None:
    return StartFile(cluster.folder / "plan.json.start").read()


# ---- stopping -------------------------------------------------------------------------------------------------------------------


def test_a_job_that_reads_is_stopped_with_a_savepoint_from_which_it_starts_again(
    job: FlinkConnector, cluster: JobManager
) -> None:
    cluster.add()
    job.stop("shop")
    assert cluster.told == ["stop j1"]
    assert start_of(cluster) == Start(1_000_000, cluster.state("savepoint-1"))
    assert job.state("shop").state == "STOPPED"


def test_a_job_that_fails_is_cancelled_and_its_last_checkpoint_is_kept(
    job: FlinkConnector, cluster: JobManager
) -> None:
    cluster.add(state="RESTARTING", failures=2)
    job.stop("shop")
    assert cluster.told == ["cancel j1"]
    assert start_of(cluster) == Start(1_000_000, cluster.state("chk-5"))


def test_a_job_that_begins_to_fail_while_it_is_stopped_is_cancelled(job: FlinkConnector, cluster: JobManager) -> None:
    """Between two failures Flink calls it RUNNING."""
    cluster.add()
    cluster.fails, cluster.meanwhile = ConnectorError("the savepoint failed"), {"failures": 1}
    job.stop("shop")
    assert cluster.told == ["stop j1", "cancel j1"]


def test_a_job_that_works_is_never_cancelled_because_its_savepoint_failed(
    job: FlinkConnector, cluster: JobManager
) -> None:
    cluster.add(failures=1)  # an old failure is none of now
    cluster.fails = ConnectorError("the savepoint failed")
    with pytest.raises(ConnectorError, match="the savepoint failed"):
        job.stop("shop")
    assert cluster.told == ["stop j1"]


def test_the_only_stored_state_is_not_deleted_by_a_cancel(job: FlinkConnector, cluster: JobManager) -> None:
    cluster.add(state="RESTARTING", failures=1)
    cluster.deleted_on_cancel = True
    with pytest.raises(ConnectorError, match="would delete its last checkpoint"):
        job.stop("shop")
    assert cluster.told == []
    cluster.jobs["j1"]["latest"] = {}  # it never stored any
    job.stop("shop")
    assert cluster.told == ["cancel j1"]


def test_a_job_that_flink_gave_up_counts_as_stopped_only_once_somebody_stopped_it(
    job: FlinkConnector, cluster: JobManager
) -> None:
    """Flink goes on to call it FAILED."""
    cluster.add(state="FAILED", failures=3)
    assert job.state("shop").state == "FAILED"
    job.stop("shop")
    assert cluster.told == []
    assert job.state("shop").state == "STOPPED"
    cluster.add("j2", "FAILED", **{"end-time": 1_000_001})  # a later one is another failure
    assert job.state("shop").state == "FAILED"


def test_a_job_that_failed_before_it_stored_anything_is_noted_as_stopped_from_now_on(
    job: FlinkConnector, cluster: JobManager
) -> None:
    """What was decided for it stands, and was decided before it failed."""
    StartFile(cluster.folder / "plan.json.start").write(Start(500_000, offset=DECIDED, job="j1"))
    cluster.add(state="FAILED", failures=1, latest={})
    assert job.state("shop").state == "FAILED"
    job.stop("shop")
    assert job.state("shop").state == "STOPPED"
    assert start_of(cluster) == Start(1_000_000, offset=DECIDED)


def test_a_job_that_fails_in_the_moment_of_its_start_has_failed_and_was_not_stopped(
    job: FlinkConnector, cluster: JobManager
) -> None:
    cluster.add()
    job.stop("shop")
    job.resume("shop")
    cluster.jobs["j9"] |= {"state": "FAILED", "failures": 1, "end-time": 1_000_000}
    assert job.state("shop").state == "FAILED"


def test_a_job_that_the_cluster_forgot_rests_where_it_was_stopped(job: FlinkConnector, cluster: JobManager) -> None:
    """Flink forgets ended jobs when it is restarted."""
    cluster.add()
    job.stop("shop")
    cluster.jobs.clear()
    job.stop("shop")
    facts = job.facts("shop")
    assert (facts.state, facts.offset and facts.offset.raw, facts.jobs) == ("STOPPED", OFFSET, ())
    assert (facts.deleted_on_cancel, facts.restarts, facts.by_yaml) == (False, 0, False)


def test_of_two_jobs_of_one_name_none_is_stopped(job: FlinkConnector, cluster: JobManager) -> None:
    cluster.add("j1")
    cluster.add("j2")
    with pytest.raises(ConnectorError, match="2 jobs are called shop: j1, j2"):
        job.stop("shop")
    assert cluster.told == []


def test_a_job_that_nobody_knows_is_no_stopped_one(job: FlinkConnector, cluster: JobManager) -> None:
    with pytest.raises(ConnectorError, match="there is no job shop") as refused:
        job.state("shop")
    assert refused.value.unread is False
    cluster.add(name="another")
    with pytest.raises(ConnectorError, match="there is no job shop"):
        job.facts("shop")


# ---- starting -------------------------------------------------------------------------------------------------------------------


def test_a_job_that_is_there_is_not_started_a_second_time(job: FlinkConnector, cluster: JobManager) -> None:
    cluster.add(state="RESTARTING", failures=1)
    job.resume("shop")
    assert cluster.told == []


def test_it_starts_from_what_it_stored_last_with_the_sessions_settings(cluster: JobManager, tmp_path: Path) -> None:
    job = connector(cluster, tmp_path, session=("parallelism.default=2",))
    cluster.add()
    job.stop("shop")
    job.resume("shop")
    assert cluster.told[1] == {
        "pipeline.name": "shop",
        "parallelism.default": "2",
        "execution.state-recovery.path": cluster.state("savepoint-1"),
    }
    assert start_of(cluster) == Start(1_000_000, cluster.state("savepoint-1"), job="j9")


@pytest.mark.parametrize("keeps", [False, True])
def test_a_decided_offset_starts_a_new_source_and_leaves_only_rows_that_an_operator_keeps(
    cluster: JobManager, tmp_path: Path, keeps: bool
) -> None:
    between = (
        node(2, type="stream-exec-group-aggregate_1", state=[{"name": "groupAggregateState"}]) if keeps else node(2)
    )
    job = connector(cluster, tmp_path, source(1, OPTIONS), between, node(3))
    cluster.add()
    job.stop("shop")
    job.offset_store("shop", {}).write(DECIDED)
    job.resume("shop")
    started = cluster.told[-1]
    assert ("execution.state-recovery.path" in started) is keeps
    assert started["execution.state-recovery.ignore-unclaimed-state"] == "true"
    (options,) = job._plan().sources
    assert options["scan.startup.specific-offset.file"] == "mysql-bin.000009"
    kept = start_of(cluster)
    assert kept is not None
    assert (kept.offset, kept.replanned, kept.job) == (DECIDED, True, "j9")


def test_no_offset_is_decided_for_a_job_that_runs(job: FlinkConnector, cluster: JobManager) -> None:
    """It stores its own."""
    cluster.add()
    with pytest.raises(ConnectorError, match="job shop runs"):
        job.offset_store("shop", {}).write(DECIDED)
    assert start_of(cluster) is None


def test_a_job_from_a_pipeline_yaml_is_neither_started_nor_moved(job: FlinkConnector, cluster: JobManager) -> None:
    cluster.add(state="FINISHED", vertices=[{"status": "FINISHED", "name": "SchemaOperator"}])
    for act in (job.resume, lambda name: job.offset_store(name, {})):
        with pytest.raises(ConnectorError, match="neither started nor moved"):
            act("shop")
    assert cluster.told == []


@pytest.mark.parametrize(
    ("more", "waits"),
    [
        ({}, False),
        ({"ran": 5_900}, True),
        ({"ran": 6_000}, False),
        ({"latest": {}}, True),
        ({"state": "CREATED"}, True),
        ({"vertices": [{"status": "DEPLOYING"}]}, True),
    ],
    ids=["runs", "too young", "old enough", "stored nothing", "not running", "a task not yet"],
)
def test_a_job_runs_once_a_lost_position_would_have_shown_and_it_stored_its_state(
    job: FlinkConnector, cluster: JobManager, more: dict[str, Any], waits: bool
) -> None:
    cluster.add(**more)
    if waits:
        with pytest.raises(DeadlineError, match="has not stored its state yet"):
            job.wait_running("shop", timeout=3)
    else:
        job.wait_running("shop", timeout=3)


def test_a_job_that_fails_ends_the_wait_at_once_with_its_cause(job: FlinkConnector, cluster: JobManager) -> None:
    cluster.add(ran=3_000, failures=1)
    with pytest.raises(ConnectorError, match=r"job shop does not read.*the log was purged"):
        job.wait_running("shop")


# ---- what is known ----------------------------------------------------------------------------------------------------------------


def test_its_offset_is_what_it_stored_until_another_is_decided_and_then_what_it_stored_since(
    job: FlinkConnector, cluster: JobManager
) -> None:
    cluster.add()
    assert job.committed_offset("shop", "shop") == OFFSET
    job.stop("shop")
    job.offset_store("shop", {}).write(DECIDED)
    assert job.committed_offset("shop", "shop") == DECIDED
    job.resume("shop")
    cluster.jobs["j9"]["latest"] = {}
    assert job.committed_offset("shop", "shop") == DECIDED
    cluster.add("j9")
    assert job.committed_offset("shop", "shop") == OFFSET


def test_of_several_sources_the_least_offset_counts_and_each_is_named_with_its_tables(
    job: FlinkConnector, cluster: JobManager
) -> None:
    further = REAL.replace(b'"shop"."t"', b'"crm_"."u"').replace(b'"pos":"1196"', b'"pos":"2000"')
    further = further.replace(b":1-4", b":1-9")
    cluster.add()
    (Path(cluster.state("chk-5")) / "_metadata").write_bytes(further + REAL)
    least, other = job.entries("shop")
    assert least == OffsetEntry({"server": "shop"}, OFFSET)
    assert (other.value or {})["pos"] == "2000"
    assert (other.key["server"], "crm_.u" in str(other.key["tables"])) == ("shop", True)
    facts = job.facts("shop")
    assert (facts.sources, facts.offsets_count, facts.offset and facts.offset.raw) == (2, 2, OFFSET)


@pytest.mark.parametrize(
    ("interval", "shown", "told"), [(1_000, True, 1_000), (4_000, True, 4_000), (4_001, False, 4_001), (0, False, None)]
)
def test_only_a_job_that_stores_its_position_often_can_be_seen_to_stand_still(
    cluster: JobManager, tmp_path: Path, interval: int, shown: bool, told: int | None
) -> None:
    job = connector(cluster, tmp_path, source(1, {**OPTIONS, "heartbeat.interval": "30s"}), node(2), node(3))
    cluster.add()
    cluster.interval = interval
    facts = job.facts("shop")
    assert (facts.heartbeats, facts.checkpoint_ms) == (shown, told)
    assert (facts.state, facts.restarts, facts.strategy, facts.jobs) == ("RUNNING", 0, "fixed delay", ("j1",))
    assert "hush" not in str(facts.config)


@pytest.mark.parametrize(
    ("inside", "place"),
    [
        ({}, Inside.NOTHING),
        ({"event": "0", "row": "0"}, Inside.NOTHING),
        ({"event": "2", "row": "0"}, Inside.TRANSACTION),
        ({"event": "0", "row": "1"}, Inside.TRANSACTION),
    ],
)
def test_an_offset_within_a_transaction_has_not_read_the_watermark_that_ends_with_it(
    inside: dict[str, str], place: Inside
) -> None:
    raw = {"file": "mysql-bin.000009", "pos": "900", "kind": "SPECIFIC", "gtids": f"{UUID}:1-90", **inside}
    stored = FlinkCodec().read(raw, {})
    assert stored.inside is place
    assert stored.position is not None
    mark: Watermark = replace(WATERMARK, position=stored.position)
    assert stored.has_read(mark) is (place is Inside.NOTHING)
