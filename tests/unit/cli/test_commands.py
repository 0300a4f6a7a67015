"""The commands, through Airflow's own parser: output, exit status, one-line errors."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import BaseHook

from airflow_cdc.cli import commands, trigger
from airflow_cdc.cli import forecast as outlook
from airflow_cdc.core.check import Check
from airflow_cdc.core.codec import sparse
from airflow_cdc.core.errors import SourceError, UnknownStateError
from airflow_cdc.core.forecast import Forecast
from airflow_cdc.core.hold import HoldState, HoldStatus
from airflow_cdc.core.observation import (
    Unknown,
)
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES
from airflow_cdc.flows.forecast import PipelineForecast
from airflow_cdc.reports.store import ReportStore, safe
from airflow_cdc.reports.stored import CHECK, REPAIR, RunSummary
from tests.unit.builders import HEALTHY, seen
from tests.unit.conftest import REGISTRY, SECRETS, Answer
from tests.unit.core.test_report import TABLE


def test_pipelines_in_every_form(cdc: Callable[..., Answer]) -> None:
    table, as_json, as_yaml = cdc("pipelines"), cdc("pipelines", "-o", "json"), cdc("pipelines", "-o", "yaml")
    assert (table.status, as_json.status, as_yaml.status) == (0, 0, 0)
    assert "shop.customers, shop.orders" in table.out
    assert as_json.data[0]["sink"]["catalog"] == "lake"
    assert yaml.safe_load(as_yaml.out) == as_json.data


def test_usage_is_status_2(cdc: Callable[..., Answer]) -> None:
    assert cdc("diagnose").status == 2
    assert cdc("pipelines", "-o", "xml").status == 2


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose",),
        ("plan",),
        ("recover",),
        ("verify",),
        ("proof",),
        ("check",),
        ("apply",),
        ("offset", "get"),
        ("dead-letters", "list"),
    ],
    ids=" ".join,
)
def test_an_unknown_pipeline_is_one_line_without_a_traceback(
    words: tuple[str, ...], cdc: Callable[..., Answer]
) -> None:
    answer = cdc(*words, "shops")
    assert answer.status == 2
    assert answer.err.startswith("error: there is no pipeline 'shops' (")
    assert "Did you mean 'shop'?" in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""


def test_a_malformed_registry_is_one_line(cdc: Callable[..., Answer], registry: Path) -> None:
    registry.write_text(REGISTRY.replace("namespace:", "name_space:"))
    answer = cdc("pipelines")
    assert answer.status == 2
    assert answer.err.count("\n") == 1
    assert "pipelines.yaml, pipeline 'shop', key sink" in answer.err


def test_an_error_nobody_foresaw_is_one_line_too(cdc: Callable[..., Answer], spec: Any) -> None:
    spec(commands, "load_registry", ZeroDivisionError("a\nb"))
    answer = cdc("pipelines")
    assert (answer.status, answer.err) == (1, "error: ZeroDivisionError: a b (--verbose shows the traceback)\n")


@pytest.mark.parametrize(
    ("observation", "status", "code"),
    [(HEALTHY, 0, "HEALTHY"), (seen(source=Unknown("refused")), 3, "UNKNOWN")],
)
def test_diagnose_and_plan_tell_by_their_status(
    observation: Any, status: int, code: str, cdc: Callable[..., Answer], spec: Any
) -> None:
    observe = spec(commands, "observe", observation)
    diagnosed, planned = cdc("diagnose", "shop", "-o", "json"), cdc("plan", "shop", "-o", "json")
    assert (diagnosed.status, diagnosed.data["code"]) == (status, code)
    assert (planned.status, planned.data["problem"], planned.data["strategy"]) == (status, code, "none")
    assert observe.call_args.args[0].pipeline.name == "shop"
    assert cdc("diagnose", "shop").out.count("HEALTHY" if status == 0 else "UNKNOWN") >= 1


def test_a_strategy_that_does_not_exist(cdc: Callable[..., Answer], spec: Any) -> None:
    spec(commands, "observe", HEALTHY)
    answer = cdc("plan", "shop", "--strategy", "full_snapshit")
    assert answer.status == 2
    assert "Did you mean 'full_snapshot'?" in answer.err


# ---- doctor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "status"), [(("ok", "warn"), 0), (("ok", "unknown"), 3), (("unknown", "bad"), 1)])
def test_status_of_the_doctor(states: tuple[str, ...], status: int, cdc: Callable[..., Answer], spec: Any) -> None:
    spec(commands, "doctor_installation", [Check("installation", "java", "ok", "17")])
    spec(commands, "airflow_checks", [])
    spec(commands, "pipeline_airflow_checks", [])
    spec(commands, "doctor_pipeline", [Check("shop", f"c{n}", state, "found") for n, state in enumerate(states)])
    answer = cdc("doctor", "-o", "json")
    assert answer.status == status
    by_name = {check["name"]: check["state"] for check in answer.data}
    assert by_name == {"java": "ok", "spark": "ok", **{f"c{n}": state for n, state in enumerate(states)}}


def test_the_doctor_names_missing_connections(
    cdc: Callable[..., Answer], spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec(commands, "doctor_installation", [])
    spec(commands, "airflow_checks", [])
    spec(commands, "pipeline_airflow_checks", [])
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_MYSQL")
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_SPARK")
    answer = cdc("doctor", "shop", "-o", "json")
    assert answer.status == 1
    told = {check["name"]: (check["state"], check["found"], check["todo"]) for check in answer.data}
    assert told["spark"][:2] == ("bad", "connection 'shop_spark' is not defined")
    assert "airflow connections add shop_mysql --conn-type cdc_mysql" in told["connections"][2]


def test_the_doctor_names_a_driver_that_would_run_on_the_cluster(
    cdc: Callable[..., Answer], spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("doctor_installation", "airflow_checks", "pipeline_airflow_checks", "doctor_pipeline"):
        spec(commands, name, [])
    where = {"conn_type": "spark", "host": "spark://one", "port": 7077, "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", json.dumps(where))
    (told,) = cdc("doctor", "shop", "-o", "json").data
    assert (told["state"], told["todo"]) == ("bad", "Set deploy-mode to client.")


def test_the_doctor_names_a_bad_registry(cdc: Callable[..., Answer], spec: Any, registry: Path) -> None:
    spec(commands, "doctor_installation", [])
    spec(commands, "airflow_checks", [])
    spec(commands, "pipeline_airflow_checks", [])
    registry.unlink()
    answer = cdc("doctor", "-o", "json")
    assert (answer.status, answer.data[0]["name"], answer.data[0]["state"]) == (1, "pipelines.yaml", "bad")


def test_connections_of_airflows_database_are_found(cdc: Callable[..., Answer], airflow_db: Path, spec: Any) -> None:
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(Connection(conn_id="in_the_db", conn_type="spark", host="local[3]"))
    seen_in: list[str] = []

    def look(path: Any) -> dict[str, Any]:
        seen_in.append(str(BaseHook.get_connection("in_the_db").host))
        return {}

    spec(commands, "load_registry", None).side_effect = look
    assert cdc("pipelines").status == 0
    assert seen_in == ["local[3]"]


# ---- recover, verify ------------------------------------------------------------------------------

REPORT: dict[str, Any] = {
    "pipeline": "shop",
    "run_id": "manual__2026-11-21T09:00:00+00:00",
    "problem": "BINLOG_PURGED",
    "evidence": {},
    "strategy": "full_snapshot",
    "data_loss": "nothing",
    "watermark": None,
    "epoch": 1,
    "offset_before": None,
    "offset_after": None,
    "tables": [
        {
            "table": "shop.orders",
            "source_rows": 3,
            "sink_rows": 3,
            "missing": 0,
            "ghosts": 0,
            "different": 0,
            "leaves": 1,
            "leaves_rechecked": 0,
            "columns_not_compared": [],
            "compared_at": {"snapshot_id": 1, "position": "binlog.000001:4"},
            "verdict": "MATCH",
        }
    ],
    "steps": [],
    "verdict": "MATCH",
}


def stored(registry: Path, **changes: Any) -> RecoveryReport:
    report = {**REPORT, **changes}
    made, store = RecoveryReport.from_json(report), ReportStore(str(registry.parent / "reports"))
    store.keep_report(made)
    store.keep_run("shop", RunSummary.of(made, safe(made.run_id), "2026-11-21T09:00:00+00:00"))
    return made


def test_recover_triggers_the_dag_with_what_was_asked(cdc: Callable[..., Answer], spec: Any) -> None:
    start = spec(trigger, "start", "manual__1")
    answer = cdc("recover", "shop", "--table", "shop.orders", "--note", "why", "--yes", "-o", "json")
    assert (answer.status, answer.data) == (0, {"dag_id": "cdc_recovery", "run_id": "manual__1"})
    asked = {"pipeline": "shop", "strategy": "auto", "tables": ["shop.orders"], "approved": True, "note": "why"}
    assert start.call_args.args == ("cdc_recovery", asked)


def test_recover_refuses_a_table_of_another_pipeline(cdc: Callable[..., Answer], spec: Any) -> None:
    start = spec(trigger, "start", "manual__1")
    answer = cdc("recover", "shop", "--table", "shop.order")
    assert (answer.status, start.call_count) == (2, 0)
    assert "has no table shop.order. Choose from: shop.customers, shop.orders." in answer.err


def test_recover_names_the_strategies_that_there_are(cdc: Callable[..., Answer], spec: Any) -> None:
    start = spec(trigger, "start", "manual__1")
    answer = cdc("recover", "shop", "--strategy", "nope")
    assert (answer.status, answer.err.count("\n"), start.call_count) == (2, 1, 0)
    assert "there is no strategy 'nope'" in answer.err
    assert all(name in answer.err for name in ("auto", *STRATEGIES))
    assert "Did you mean 'full_snapshot'?" in cdc("recover", "shop", "--strategy", "full_snapshit").err
    assert cdc("recover", "shop", "--strategy", "full_snapshot").status == 0


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (("success", {}, {"open_recovery": "success", "restart_connector": "skipped"}), 0),
        (("success", {}, {"open_recovery": "skipped", "restart_connector": "success"}), 0),
        (("success", {}, {"open_recovery": "skipped", "restart_connector": "skipped"}), 1),  # rejected
        (("success", None, {"open_recovery": "skipped", "restart_connector": "skipped"}), 0),  # healthy
        (("failed", None, {}), 1),
        (("failed", {"tables": [], "verdict": "INCONCLUSIVE"}, {}), 1),  # it ended before anything was compared
        (("failed", {"tables": [{**sparse(TABLE), "verdict": "INCONCLUSIVE"}], "verdict": "INCONCLUSIVE"}, {}), 3),
        (("failed", {}, {}), 1),
    ],
)
def test_recover_waits_and_tells(
    ended: tuple[str, dict[str, Any] | None, dict[str, str]],
    status: int,
    cdc: Callable[..., Answer],
    spec: Any,
    registry: Path,
) -> None:
    state, changes, tasks = ended
    if changes is not None:
        stored(registry, run_id="manual__1", **changes)
    spec(trigger, "start", "manual__1")
    looks = iter(
        [
            trigger.Ended("running", {"diagnose": "running"}),
            trigger.Ended(state, {"diagnose": "success", **tasks}, 63.4),
        ]
    )
    spec(trigger, "look", None).side_effect = lambda _run_id, _dag_id: next(looks)
    answer = cdc("recover", "shop", "--wait", "-o", "json")
    assert answer.status == status
    planned = {task: seen for task, seen in {"diagnose": "success", **tasks}.items() if seen != "skipped"}
    lines = [line for line in answer.err.splitlines() if not line.startswith("error: ")]
    assert lines[:-1] == ["diagnose: running", *(f"{task}: {seen}" for task, seen in planned.items())]
    assert lines[-1].endswith(f"run manual__1: {state} after 63 s")
    assert (answer.data["state"], answer.data["tasks"], answer.data["seconds"]) == (state, planned, 63.4)
    assert (answer.data["report"] is None) == (changes is None)


def test_a_command_that_waited_says_the_verdict_of_each_table_first(
    cdc: Callable[..., Answer], spec: Any, registry: Path
) -> None:
    made = stored(registry, run_id="manual__1")
    spec(trigger, "start", "manual__1")
    spec(trigger, "look", trigger.Ended("success", {"open_recovery": "success", "detour_connector": "skipped"}, 63.4))
    answer = cdc("recover", "shop", "--wait")
    assert f"{made.verdict}, run manual__1: success after 63 s" in answer.err
    assert answer.out.index("verified_through") < answer.out.index("open_recovery")
    assert all(table.table in answer.out for table in made.tables)
    assert "detour_connector" not in answer.out + answer.err


def test_a_command_that_waited_says_why_the_run_failed_also_without_a_report(
    cdc: Callable[..., Answer], spec: Any
) -> None:
    """A task that is killed leaves nothing; one that failed before its step is in no report."""
    spec(trigger, "start", "manual__1")
    reasons = {"diagnose": "connection 'shop_mysql' is not defined. Create it."}
    tasks = {"diagnose": "failed", "verify": "failed", "approve": "upstream_failed"}
    spec(trigger, "look", trigger.Ended("failed", tasks, 4.0, reasons))
    answer = cdc("recover", "shop", "--wait", "-o", "json")
    assert answer.status == 1
    assert "error: diagnose: connection 'shop_mysql' is not defined. Create it.\n" in answer.err
    assert "error: verify: it left no error: it was killed" in answer.err
    assert answer.data["failures"]["diagnose"] == reasons["diagnose"]


def test_recover_follows_the_run_that_asks_again(cdc: Callable[..., Answer], spec: Any, registry: Path) -> None:
    stored(registry, run_id="manual__1__again1_full_snapshot_0a1b2c3d")
    spec(trigger, "start", "manual__1")
    ended = {
        "manual__1": trigger.Ended("success", {"approve": "success", "ask_again": "success"}),
        "manual__1__again1_full_snapshot_0a1b2c3d": trigger.Ended(
            "success", {"open_recovery": "success", "ask_again": "skipped"}
        ),
    }
    spec(trigger, "look", None).side_effect = lambda run_id, _dag_id: ended[run_id]
    spec(trigger, "asks_again", "manual__1__again1_full_snapshot_0a1b2c3d")
    answer = cdc("recover", "shop", "--wait", "-o", "json")
    assert (answer.status, answer.data["run_id"]) == (0, "manual__1__again1_full_snapshot_0a1b2c3d")
    assert answer.data["report"]["verdict"] == "MATCH"
    assert "the plan changed, and a person is asked again: run manual__1__again1_" in answer.err


def test_a_dag_that_airflow_does_not_know(cdc: Callable[..., Answer], airflow_db: Path, registry: Path) -> None:
    registry.write_text(REGISTRY.replace("shop:", "depot:", 1))
    answer = cdc("dead-letters", "replay", "depot")
    assert answer.status == 2
    assert "the run was not triggered" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(("changes", "status"), [({}, 0), ({"tables": [], "verdict": "INCONCLUSIVE"}, 3)])
def test_proof_reads_the_newest_report(
    changes: dict[str, Any], status: int, cdc: Callable[..., Answer], registry: Path
) -> None:
    made = stored(registry, **changes)
    answer = cdc("proof", "shop", "-o", "json")
    assert (answer.status, answer.data) == (status, made.to_json())
    assert cdc("proof", "shop", "--run-id", made.run_id).status == status


def test_proof_of_one_table_has_that_table_s_verdict(cdc: Callable[..., Answer], registry: Path) -> None:
    right, wrong = (sparse(replace(TABLE, table=f"shop.{name}")) for name in ("orders", "customers"))
    stored(registry, tables=[right, {**wrong, "ghosts": 1, "verdict": "MISMATCH"}], verdict="MISMATCH")
    assert cdc("proof", "shop").status == 1
    answer = cdc("proof", "shop", "--table", "shop.orders", "-o", "json")
    assert (answer.status, answer.data["verdict"]) == (0, "MATCH")
    assert [table["table"] for table in answer.data["tables"]] == ["shop.orders"]
    assert cdc("proof", "shop", "--table", "shop.customers").status == 1
    stored(registry, tables=[right], verdict="MATCH")
    missing = cdc("proof", "shop", "--table", "shop.customers")
    assert missing.status == 3
    assert "shop.customers was not compared" in missing.err


def test_proof_says_of_a_table_that_an_earlier_check_found_wrong(cdc: Callable[..., Answer], registry: Path) -> None:
    """A repair of one table ends in MATCH, and proves nothing of the other."""
    right, wrong = (sparse(replace(TABLE, table=f"shop.{name}")) for name in ("orders", "customers"))
    both = RecoveryReport.from_json(
        {
            **REPORT,
            "run_id": "night",
            "tables": [{**right, "ghosts": 1, "verdict": "MISMATCH"}, {**wrong, "ghosts": 1, "verdict": "MISMATCH"}],
            "verdict": "MISMATCH",
        }
    )
    store = ReportStore(str(registry.parent / "reports"))
    store.keep_run("shop", RunSummary.of(both, "night", "2026-11-21T02:00:00+00:00", CHECK))
    repaired = RecoveryReport.from_json({**REPORT, "tables": [right], "verdict": "MATCH"})
    store.keep_report(repaired)
    listed = RunSummary.of(repaired, safe(repaired.run_id), "2026-11-21T09:00:00+00:00", REPAIR)
    store.keep_run("shop", listed, frozenset({"shop.orders"}))
    answer = cdc("proof", "shop", "-o", "json")
    assert (answer.status, answer.data["verdict"], answer.data["known_to_differ"]) == (1, "MATCH", ["shop.customers"])
    assert "an earlier check" in cdc("proof", "shop").out
    assert cdc("proof", "shop", "--table", "shop.orders").status == 0
    assert cdc("proof", "shop", "--table", "shop.customers").status == 1
    assert cdc("proof", "shop", "--run-id", repaired.run_id).status == 0


def test_proof_without_a_report_is_unknown(cdc: Callable[..., Answer]) -> None:
    answer = cdc("proof", "shop")
    assert answer.status == 3
    assert "there is no report" in answer.err


# ---- init -----------------------------------------------------------------------------------------


def test_init_says_how_airflow_finds_the_dags(cdc: Callable[..., Answer], registry: Path, tmp_path: Path) -> None:
    before = registry.read_text()
    facts = cdc("init", "-o", "json").data
    (line,) = facts["next"]
    bundle = json.loads(shlex.split(line)[1].partition("=")[2])[-1]
    assert (Path(bundle["kwargs"]["path"]) / "cdc_recovery.py").exists()
    assert "left as it is" in facts["registry"]
    assert registry.read_text() == before

    assert cdc("init", "--stub", str(tmp_path)).status == 0
    kinds = {path.name for path in Path(bundle["kwargs"]["path"]).glob("cdc_*.py")}
    stubs = {path.name: path.read_text().lower() for path in tmp_path.glob("cdc_*.py")}
    assert stubs.keys() == kinds
    assert all(
        "airflow" in text and "dag" in text for text in stubs.values()
    )  # Airflow only loads files with both words
    assert cdc("init", "--stub", str(tmp_path / "none")).status == 2


def test_init_writes_a_first_registry_that_is_valid(cdc: Callable[..., Answer], registry: Path) -> None:
    registry.unlink()
    assert "written" in cdc("init", "-o", "json").data["registry"]
    assert cdc("pipelines", "-o", "json").data[0]["name"] == "shop"


def test_no_command_shows_a_secret(cdc: Callable[..., Answer], spec: Any) -> None:
    spec(commands, "observe", replace(HEALTHY, source=Unknown(str(SourceError("refused", where="db")))))
    spec(commands, "doctor_installation", [])
    spec(commands, "airflow_checks", [])
    spec(commands, "pipeline_airflow_checks", [])
    spec(commands, "doctor_pipeline", [])
    for words in (("pipelines",), ("diagnose", "shop"), ("plan", "shop"), ("doctor",)):
        answer = cdc(*words, "-o", "json")
        assert not any(secret in answer.out + answer.err for secret in SECRETS.values())


# ---- explain, forecast ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("Could not find first log file name in binary log index file", 1, "BINLOG_PURGED"),
        ("all is well", 3, "UNKNOWN"),
    ],
)
def test_explain_says_that_it_has_only_the_text(
    text: str, status: int, code: str, cdc: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"INFO before\n{text}\nINFO after\n"))
    answer = cdc("explain", "-o", "json")
    assert (answer.status, answer.data["code"], answer.data["from_text_only"]) == (status, code, True)
    assert answer.data["runbook"] == ""  # no Airflow is known, so there is no such page


def test_explain_helps_in_the_terminal_and_links_to_airflow_where_there_is_one(
    cdc: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "Could not find first log file name in binary log index file"
    monkeypatch.setattr("sys.stdin", io.StringIO(line))
    answer = cdc("explain", "-o", "json")
    assert answer.data["do"].startswith("trigger cdc_recovery: it re-reads the tables")
    assert answer.data["by_hand"].startswith('the page "My connector failed: first aid"')
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    monkeypatch.setattr("sys.stdin", io.StringIO(line))
    assert cdc("explain", "-o", "json").data["runbook"] == "https://airflow.example/cdc/runbook#binlog_purged"


def test_explain_says_that_a_text_is_not_recognised(
    cdc: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("all is well"))
    answer = cdc("explain")
    assert (answer.status, "not recognised" in answer.out) == (3, True)


SEEN = PipelineForecast(
    "shop",
    "2026-11-21T09:00:00+00:00",
    "b.000009:4",
    Forecast(7000.0, 9000.0, 1.5, 60.0, "why"),
    21600,
    True,
    60.0,
    None,
    True,
)


@pytest.mark.parametrize(
    ("seen_now", "status"),
    [(SEEN, 1), (replace(SEEN, at_risk=False), 0), (replace(SEEN, at_risk=False, snapshot_fits=False), 1)],
)
def test_forecast_tells_by_its_status(
    seen_now: PipelineForecast, status: int, cdc: Callable[..., Answer], spec: Any
) -> None:
    spec(outlook, "forecast_pipeline", seen_now)
    answer = cdc("forecast", "shop", "-o", "json")
    assert answer.status == status
    assert (answer.data["earliest_s"], answer.data["latest_s"], answer.data["at_risk"]) == (
        7000.0,
        9000.0,
        seen_now.at_risk,
    )
    assert "7000" in cdc("forecast", "shop").out


def test_forecast_of_what_cannot_be_told_is_status_3(cdc: Callable[..., Answer], spec: Any) -> None:
    spec(outlook, "forecast_pipeline", UnknownStateError("the connector has no offset"))
    assert cdc("forecast", "shop").status == 3


HELD = HoldState("shop:by hand", HoldStatus.HELD, blocks_purge=True, held_s=5.0)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (HELD, 0),
        (replace(HELD, status=HoldStatus.RELEASED, reason="the limit of 7200 s is reached", held_s=7200.5), 0),
        (replace(HELD, status=HoldStatus.RELEASED, reason="another session waits for the global read lock"), 1),
        (replace(HELD, status=HoldStatus.REFUSED, blocks_purge=False), 1),
    ],
)
def test_hold_tells_by_its_status(state: HoldState, status: int, cdc: Callable[..., Answer], spec: Any) -> None:
    spec(outlook, "hold_by_hand", state)
    answer = cdc("hold", "shop", "-o", "json")
    assert (answer.status, answer.data["status"]) == (status, str(state.status))
