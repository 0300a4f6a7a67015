"""Flink's rows of the diagnosis, over made facts: those that the tests on real servers do not make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.flink.capture import FlinkCapture, flat
from airflow_cdc.connectors.flink.connector import FlinkFacts
from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.connectors.flink.problems import RULES, numbered_anew, shares_its_job
from airflow_cdc.core.observation import SchemaFacts, SinkFacts, TaskState
from airflow_cdc.core.problem import Evidence
from airflow_cdc.decisions.diagnosis.diagnose import diagnose
from airflow_cdc.decisions.diagnosis.strategy import FULL, TRANSLATE
from airflow_cdc.kinds import rules_for
from airflow_cdc.sinks.hudi.kind import HudiSettings
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.transports.direct import DirectSettings
from tests.unit.builders import CONTROL, PIPELINE, SOURCE, UUID, seen
from tests.unit.faults import NO_SINK, PURGED
from tests.unit.tables import column, table

ADDRESS = "db:3306"
OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FLINK = replace(
    PIPELINE, connector=FlinkSettings("flink", "f", "shop"), transport=DirectSettings("direct"), sink=NO_SINK
)
SHOP = {"database-name": "shop", "table-name": "orders|customers"}


def offset(gtids: str) -> Any:
    value = {"file": "mysql-bin.000009", "pos": "500", "kind": "SPECIFIC", "gtids": gtids, "ts_sec": "1"}
    return FlinkCodec().read(value, {"server": "shop"})


def facts(**more: Any) -> FlinkFacts:
    """A job that runs within the server's log."""
    made = FlinkFacts(
        "RUNNING",
        (TaskState(0, "RUNNING"),),
        {},
        offset(f"{UUID}:1-80"),
        {"server": "shop"},
        1,
        address=ADDRESS,
        capture=FlinkCapture.from_config(flat("shop", (SHOP,))),
        jobs=("j1",),
        checkpoint_ms=10_000,
    )
    return replace(made, **more)


def held(rank: int, connector: FlinkFacts) -> Evidence | None:
    """What the row of this rank says."""
    case = RULES.case(seen(connector=connector, source=replace(SOURCE, address=ADDRESS)))
    return next(row for row in RULES.problems if row.rank == rank).holds(case)


def test_an_option_that_cannot_be_followed() -> None:
    """It is said beside what is wrong with the position, and is a problem of its own only where there is a sink."""
    assert held(84, facts()) is None
    append_only = flat("shop", ({**SHOP, "scan.read-changelog-as-append-only.enabled": "true"},))
    job = facts(capture=FlinkCapture.from_config(append_only))
    assert "append-only" in (held(84, job) or {})["rows"]
    lost = replace(seen(connector=job, source=replace(PURGED, address=ADDRESS)), pipeline=FLINK)
    told = diagnose(lost, rules_for(FLINK))
    assert told.code == "GTID_PURGED"
    assert any("append-only" in one and one.startswith("rows: refused") for one in told.remarks)
    assert "CONNECTOR_MISCONFIGURED" not in {one.code for one in told.others}


def test_a_job_that_takes_no_checkpoints() -> None:
    assert held(26, facts()) is None
    assert "not set" in (held(26, facts(checkpoint_ms=None)) or {})["execution.checkpointing.interval"]
    assert held(26, facts(jobs=(), checkpoint_ms=None)) is None  # it has ended: nothing is known of it


def test_a_set_ahead_of_the_server_is_one_that_the_server_will_write_itself() -> None:
    assert held(29, facts()) is None
    told = held(29, facts(offset=offset(f"{UUID}:1-103")))
    assert told is not None
    assert told["gtids will be skipped"].startswith(f"{UUID}:101-103 (3 transactions) ")
    # of another server: Flink refuses it, and the server's own row names it
    assert held(29, facts(offset=offset(f"{UUID}:1-80,{OTHER}:1-3"))) is None
    # a running job at another address may read another server
    assert held(29, facts(offset=offset(f"{UUID}:1-103"), address="elsewhere:3306")) is None


def test_two_jobs_of_one_name() -> None:
    assert held(41, facts()) is None
    assert set(held(41, facts(jobs=("j1", "j2"))) or {}) == {"job 1", "job 2"}


def test_what_is_skipped_and_what_is_not_kept_are_warnings() -> None:
    assert held(91, facts()) is None
    options = {**SHOP, "debezium.inconsistent.schema.handling.mode": "skip"}
    told = held(91, facts(capture=FlinkCapture.from_config(flat("shop", (options,)))))
    assert "schema.handling.mode=skip" in (told or {})["setting 1"]
    assert held(97, facts()) is None
    assert (
        "RETAIN_ON_CANCELLATION" in (held(97, facts(deleted_on_cancel=True)) or {})["externalized-checkpoint-retention"]
    )


@pytest.mark.parametrize(
    "option",
    [
        "debezium.event.processing.failure.handling.mode",
        "debezium.inconsistent.schema.handling.mode",
        "debezium.event.deserialization.failure.handling.mode",
    ],
)
def test_inv_05_an_option_with_which_events_are_passed_over_is_named_with_its_value(option: str) -> None:
    for value in ("skip", "warn"):
        told = held(91, facts(capture=FlinkCapture.from_config(flat("shop", ({**SHOP, option: value},)))))
        assert (told or {})["setting 1"].split()[0] == f"{option}={value}"
    assert held(91, facts(capture=FlinkCapture.from_config(flat("shop", ({**SHOP, option: "fail"},))))) is None


def test_a_table_of_the_pipeline_that_no_source_reads_is_named_and_the_others_are_not() -> None:
    definitions = {f"shop.{name}": replace(table(column("id", "int")), name=name) for name in ("orders", "items")}
    row = next(row for row in RULES.problems if row.rank == 85)
    observation = seen(connector=facts(), source=replace(SOURCE, address=ADDRESS), schema=SchemaFacts(definitions))
    told = row.holds(RULES.case(observation)) or {}
    assert list(told) == ["shop.items"]
    assert "no source of the job reads shop.items" in told["shop.items"]
    diagnosis = diagnose(replace(observation, pipeline=FLINK), rules_for(FLINK))
    assert "No source of the job reads a table" in " ".join(
        [diagnosis.description, *(one.description for one in diagnosis.others)]
    )


def test_no_row_says_anything_of_another_connector() -> None:
    case = RULES.case(seen())
    assert [row.code for row in RULES.problems if row.holds(case) is not None] == []


def test_only_a_job_that_copies_one_table_is_recovered() -> None:
    def blocked(**more: Any) -> tuple[str, ...]:
        case = RULES.case(seen(connector=facts(**more), source=SOURCE))
        return tuple(why for blocker in RULES.blockers["full_snapshot"] if (why := blocker(case)))

    def capture(table: str, *between: str) -> FlinkCapture:
        return FlinkCapture.from_config(flat("shop", ({"database-name": "shop", "table-name": table},), between))

    assert blocked(capture=capture("orders")) == ()
    assert "which is not one of the pipeline's tables" in blocked(capture=capture("orders|customers"))[0]
    assert "more to the rows than to copy them: join" in blocked(capture=capture("orders", "join"))[0]
    assert "2 sources of MySQL's log" in blocked(capture=capture("orders"), sources=2)[0]
    assert "from a pipeline YAML of Flink CDC" in blocked(capture=capture("orders"), by_yaml=True)[0]


def test_a_job_that_runs_at_a_server_that_it_was_never_seen_reading() -> None:
    sink = IcebergSettings("iceberg", "shop", "lake", writer="connector")

    def told(known: tuple[str, ...], **more: Any) -> Evidence | None:
        made = replace(
            seen(connector=facts(**more), source=replace(SOURCE, address=ADDRESS)),
            pipeline=replace(PIPELINE, sink=sink),
            control=replace(CONTROL, servers=known),
            sink=SinkFacts({}),
        )
        return next(row for row in RULES.problems if row.rank == 51).holds(RULES.case(made))

    assert told((UUID,)) is None
    assert told(()) is None  # nothing was noted yet
    assert (told((OTHER,)) or {})["server_uuid before"].startswith(OTHER)
    assert told((OTHER,), tasks=(TaskState(0, "FAILED", "x"),)) is None  # the server's own row judges it
    assert told((OTHER,), address="elsewhere:3306") is None


def test_hudis_operators_lose_their_state_so_what_needs_it_is_refused() -> None:
    hudi = replace(PIPELINE, sink=HudiSettings("hudi", "shop", "/lake", writer="connector"))
    shared = replace(hudi, connector=FlinkSettings("flink", "f", "shop", reads="shop.orders"))
    made = {pipeline: RULES.case(seen(pipeline=pipeline)) for pipeline in (PIPELINE, hudi, shared)}
    assert [bool(numbered_anew(case)) for case in made.values()] == [False, True, True]
    assert [bool(shares_its_job(case)) for case in made.values()] == [False, False, True]
    assert numbered_anew in RULES.blockers[TRANSLATE]
    assert shares_its_job in RULES.blockers[FULL]
