"""A pipeline with Flink CDC and without a sink of ours, on real servers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_cdc.connectors.flink.connector import FlinkConnector, FlinkFacts
from airflow_cdc.connectors.flink.job import Job
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.core.error_texts import match
from airflow_cdc.core.errors import ConnectorError, OffsetRejectedError
from airflow_cdc.core.observation import SourceFacts
from airflow_cdc.core.offset import Inside
from airflow_cdc.decisions.diagnosis.diagnose import diagnose
from airflow_cdc.flows.forecast import forecast_pipeline
from airflow_cdc.flows.move_offset import last_before, move, stored
from airflow_cdc.flows.observe import observe
from airflow_cdc.kinds import rules_for
from stack.process import wait_until
from tests.integration.flink.support import WAIT_S, Scene

pytestmark = pytest.mark.minutes
UNKNOWN_SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_it_is_diagnosed_and_forecast_and_stopped_with_its_state(scene: Scene) -> None:
    assert scene.diagnosis().code == "HEALTHY", scene.diagnosis()
    forecast = forecast_pipeline(scene.run)
    assert (forecast.at_risk, forecast.forecast.earliest_s is None or forecast.forecast.earliest_s > 0) == (False, True)
    assert scene.executed() in scene.diagnosis().evidence["stored offset"]
    scene.connector.stop(scene.name)
    scene.connector.stop(scene.name)  # safe to repeat
    assert scene.diagnosis().code == "CONNECTOR_STOPPED"
    assert scene.stored_set() == scene.executed()
    # and from the savepoint it goes on where it was
    scene.insert(2)
    scene.start()
    scene.connector.resume(scene.name)
    scene.wait_sent(2)
    assert scene.ids() == [0, 1, 2]
    assert scene.diagnosis().code == "HEALTHY"


@pytest.mark.slow
def test_the_position_moves_and_the_job_reads_on_exactly_there_and_back(scene: Scene) -> None:
    with pytest.raises(ConnectorError, match="Stop it first"):
        scene.connector.offset_store(scene.name, {"server": scene.name}).write(scene.at())
    scene.connector.stop(scene.name)
    before = scene.offset()
    scene.insert(2, 3)
    value = scene.at()
    scene.insert(4, 5)
    told = move(scene.run, value, who="a person", shown=before)
    assert told["after"] == stored(scene.run)["offset"] == value
    assert told["moves"].startswith("skips ")
    scene.start()
    scene.wait_sent(5)
    assert scene.ids() == [0, 1, 4, 5]
    assert scene.diagnosis().code == "HEALTHY"

    # and back: what was skipped, and what was not, once more
    scene.connector.stop(scene.name)
    move(scene.run, last_before(scene.run), who="a person", shown=scene.offset())
    assert scene.offset() == before
    scene.start()
    wait_until(lambda: scene.ids()[4:] == [2, 3, 4, 5] or None, timeout=WAIT_S, what="rows 2 to 5 to be written again")


def test_a_purged_log_is_named_while_flink_says_restarting(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    scene.insert(2)
    scene.purge()
    assert scene.diagnosis().code == "GTID_PURGED"
    scene.connector.resume(scene.name)
    trace = scene.failure()
    assert "no longer available on the server" in trace
    assert scene.mysql.debezium.password not in trace
    (job,) = scene.flink.jobs(scene.name)
    assert job["state"] in {"RESTARTING", "RUNNING"}
    named = match(rules_for(scene.run.pipeline).texts, trace)
    assert named is not None
    assert named.code == "BINLOG_PURGED"
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "GTID_PURGED", diagnosis
    assert "restart strategy" in diagnosis.evidence
    with pytest.raises(ConnectorError, match="no longer available"):
        scene.connector.wait_running(scene.name, timeout=30)
    # a failing job takes no savepoint: it is cancelled, and from where the server still has its log it goes on
    scene.connector.stop(scene.name)
    move(scene.run, scene.at(), who="a person", shown=scene.offset())
    scene.start()
    scene.insert(3)
    scene.wait_sent(3)
    assert scene.ids() == [0, 1, 3]
    assert scene.diagnosis().code == "HEALTHY"


@pytest.mark.slow
def test_a_job_that_seems_to_run_between_two_failures_is_stopped_all_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What made a recovery fail once in many runs: Flink called the job RUNNING, and it failed during its savepoint."""
    scene.connector.stop(scene.name)
    scene.insert(2)
    scene.purge()
    scene.connector.resume(scene.name)
    scene.failure()
    one_live = FlinkConnector._one_live

    def between(connector: FlinkConnector, name: str) -> Job | None:
        job = one_live(connector, name)
        return job and replace(job, said={**job.said, "state": "RUNNING"})

    with monkeypatch.context() as patched:
        patched.setattr(FlinkConnector, "_one_live", between)
        scene.connector.stop(scene.name)
    assert scene.connector.state(scene.name).state == "STOPPED"
    assert scene.diagnosis().code == "GTID_PURGED"


HOURLY = (
    "restart-strategy.type=fixed-delay",
    "restart-strategy.fixed-delay.attempts=10",
    "restart-strategy.fixed-delay.delay=1 h",
)


@pytest.mark.slow
def test_a_job_that_waits_an_hour_for_its_next_try_is_named_stopped_and_goes_on(scene: Scene) -> None:
    """It fails once and is RESTARTING from then on: nothing is waited for, whatever its strategy is."""
    connector = scene.connector
    connector.stop(scene.name)
    scene.insert(2)
    scene.purge()
    hourly = FlinkConnector(replace(connector.endpoint, session=HOURLY), FlinkCodec())
    hourly.resume(scene.name)
    assert "no longer available on the server" in scene.failure()
    assert scene.diagnosis().code == "GTID_PURGED"
    with pytest.raises(ConnectorError, match="no longer available"):
        connector.wait_running(scene.name, timeout=30)

    def waits() -> bool | None:
        (job,) = scene.flink.jobs(scene.name)
        return True if job["state"] == "RESTARTING" and job["duration"] > 15_000 else None

    wait_until(waits, timeout=WAIT_S, what="the job to be 15 s old, and to wait")
    # with the cluster's own strategy it would have failed again and again by now
    facts = observe(scene.run, watch=0.0).connector
    assert isinstance(facts, FlinkFacts)
    assert facts.restarts == 1
    connector.stop(scene.name)
    move(scene.run, scene.at(), who="a person", shown=scene.offset())
    scene.start()
    scene.insert(3)
    scene.wait_sent(3)
    assert scene.ids() == [0, 1, 3]


@pytest.mark.slow
def test_a_set_ahead_of_the_server_is_refused_and_named_where_flink_accepts_it(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    before = scene.offset()
    uuid, _, numbers = scene.executed().rpartition(":")
    last = int(numbers.rpartition("-")[2])
    ahead = scene.at(gtids=f"{uuid}:1-{last + 2}")
    with pytest.raises(OffsetRejectedError, match="GTID_AHEAD"):
        move(scene.run, ahead, who="a person", shown=before)
    with pytest.raises(OffsetRejectedError, match="GTID_NOT_CONTAINED"):
        move(scene.run, scene.at(gtids=f"{scene.executed()},{UNKNOWN_SERVER}:1-3"), who="a person", shown=before)
    assert scene.offset() == before
    # written past our checks
    scene.connector.offset_store(scene.name, {"server": scene.name}).write(ahead)
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "GTID_AHEAD", diagnosis
    assert f"{uuid}:{last + 1}-{last + 2} (2 transactions)" in diagnosis.evidence["gtids will be skipped"]
    # Flink runs with it, stores the server's own set within seconds, and skips rows 2 and 3: nothing shows it any more
    scene.start()
    wait_until(lambda: scene.stored_set() == scene.executed() or None, timeout=WAIT_S, what="a set of the server's own")
    scene.insert(2, 3, 4)
    scene.wait_sent(4)
    assert scene.ids() == [0, 1, 4]
    assert scene.connector.state(scene.name).running
    assert scene.diagnosis().code == "HEALTHY"


@pytest.mark.slow
def test_what_flink_could_not_read_from_is_refused(scene: Scene) -> None:
    scene.connector.stop(scene.name)
    before, plan = scene.offset(), scene.plan.read_text()
    for value, fault in (
        (scene.at(kind="LATEST"), "only SPECIFIC"),
        (scene.at(pos=7), "as text"),
        ({**scene.at(), "gtid": "x"}, "did you mean 'gtids'"),
        ({key: value for key, value in scene.at().items() if key != "gtids"}, "GTID_MISSING_IN_OFFSET"),
    ):
        with pytest.raises(OffsetRejectedError, match=fault):
            move(scene.run, value, who="a person", shown=before)
    assert (scene.offset(), scene.plan.read_text()) == (before, plan)


@pytest.mark.slow
def test_two_jobs_of_one_name_are_named_and_nothing_is_stopped(scene: Scene) -> None:
    scene.flink.sql(f"EXECUTE PLAN 'file://{scene.plan}'", properties={"pipeline.name": scene.name})
    try:
        wait_until(
            lambda: scene.diagnosis().code == "OFFSET_AMBIGUOUS" or None,
            timeout=WAIT_S,
            what="the second job to be seen",
        )
        with pytest.raises(ConnectorError, match="2 jobs are called"):
            scene.connector.stop(scene.name)
    finally:
        scene.flink.cancel(scene.name)


def test_a_password_that_nobody_sees(scene: Scene) -> None:
    config = dict(scene.connector.facts(scene.name).config)
    assert config["source.1.hostname"] == scene.mysql.host
    assert scene.mysql.debezium.password not in json.dumps(config)
    assert scene.mysql.debezium.password in scene.plan.read_text()


class TestHeartbeats:
    """With Flink CDC's own intervals."""

    @pytest.fixture
    def options(self) -> dict[str, str]:
        return {}

    def test_a_position_that_waits_for_the_heartbeat_is_not_stuck(self, scene: Scene) -> None:
        """Until then it stands at the begin of the last transaction, with what was read of it; the log holds more."""

        def within() -> bool | None:
            offset = scene.connector.facts(scene.name).offset
            return True if offset is not None and offset.inside is Inside.TRANSACTION else None

        wait_until(within, timeout=WAIT_S, what="the row's offset to be stored")
        seen = observe(scene.run, watch=3.0)
        assert isinstance(seen.source, SourceFacts)
        assert isinstance(seen.connector, FlinkFacts)
        assert (seen.source.more_to_read, seen.connector.heartbeats) == (True, True)
        assert diagnose(seen, rules_for(scene.run.pipeline)).code == "HEALTHY"
