"""The page: who may see what, what it says, and that it changes nothing and asks no source."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.airflow_version import installed
from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.codec import plain
from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.observation import (
    Ahead,
    ControlFacts,
    Observation,
    OpenFacts,
    TaskState,
    TransportFacts,
    Unknown,
)
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.compare.row_diff import rows_file
from airflow_cdc.kinds import titles_of_others
from airflow_cdc.plugin import PREFIX, view
from airflow_cdc.plugin.action import actions_for
from airflow_cdc.plugin.colour import CODES, NOT_OBSERVED, RECOVERED, Colour, colour_of, present_code
from airflow_cdc.reports.runbook import runbook_html
from airflow_cdc.reports.store import ReportStore, safe
from airflow_cdc.reports.stored import CHECK, RunSummary, StoredObservation
from tests.diagnosing import diagnose
from tests.unit.builders import HEALTHY, PIPELINE, PROBLEMS, SINK, seen, with_connector, with_source
from tests.unit.conftest import REGISTRY
from tests.unit.core.test_report import BAD, PAIR, REPORT, TABLE
from tests.unit.faults import TOPIC, TRANSIENT, applied, waits

NOW = datetime.now(UTC)
OTHER = REGISTRY.replace("pipelines:", "").replace("shop", "bank")
PURGED = with_source(gtid_purged=HEALTHY.source.gtid_executed)  # type: ignore[union-attr]
DIFFERING = seen(sink=replace(SINK, differs=("shop.orders",)))
OPENED = ControlFacts(3, recovery=OpenFacts("manual__7", "2026-11-23T10:00:00+00:00"))
PAGES = ["/", "/pipelines/shop", "/pipelines/shop/runs/manual__1", "/pipelines/shop/runs/manual__1/files/report.json"]


def at(obs: Observation, minutes: float) -> Observation:
    return replace(obs, taken_at=(NOW - timedelta(minutes=minutes)).isoformat())


def keep(store: ReportStore, obs: Observation) -> StoredObservation:
    made = StoredObservation.of(obs, diagnose(obs), store.observation("shop"))
    store.keep_observation(made)
    return made


def ended(minutes: float, verdict: str = "MATCH", **changes: Any) -> RunSummary:
    when = (NOW - timedelta(minutes=minutes)).isoformat()
    made = RunSummary.of(REPORT, "manual__1", when, dag_id="cdc_recovery")
    return replace(made, verdict=Verdict(verdict), **changes)


def checked(minutes: float, *differs: str) -> RunSummary:
    """A night that found these tables to differ."""
    verdict, night = "MISMATCH" if differs else "MATCH", "scheduled__2026-11-21T02:00:00+00:00"
    place = {"run_id": night, "folder": safe(night), "kind": CHECK, "dag_id": "cdc_nightly_consistency__shop"}
    return ended(minutes, verdict, differs=differs, **place)


@pytest.fixture
def store(registry: Path) -> ReportStore:
    return ReportStore(str(registry.parent / "reports"))


@pytest.fixture
def filled(store: ReportStore) -> ReportStore:
    keep(store, at(HEALTHY, 90))
    keep(store, at(PURGED, 5))
    store.keep_report(REPORT)
    store.keep_run("shop", ended(30))
    return store


# ---- who may see what -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/pipelines/nowhere"])
def test_who_is_not_signed_in_gets_401(path: str, web: Any, filled: ReportStore) -> None:
    answer = web(None).get(PREFIX + path)
    assert answer.status_code == 401
    assert "shop.orders" not in answer.text
    login = "/auth/login?next=" if installed()[1] >= (3, 3) else "/auth/login"  # 3.2 forgets where one came from
    assert login in answer.text


@pytest.mark.parametrize("path", [*PAGES, "/pipelines/nowhere"])
def test_who_has_no_right_to_the_dag_gets_403(path: str, web: Any, filled: ReportStore) -> None:
    answer = web("").get(PREFIX + path)
    assert answer.status_code == 403
    assert "shop.orders" not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_who_may_read_the_dag_sees_it(path: str, web: Any, filled: ReportStore) -> None:
    assert web("VIEWER").get(PREFIX + path).status_code == 200


def test_a_token_that_is_forged_is_refused(web: Any, filled: ReportStore) -> None:
    client = web(None)
    client.cookies.set("_token", "e30.e30.e30")
    assert client.get(f"{PREFIX}/").status_code == 403


def test_who_may_read_one_pipeline_does_not_see_the_other(
    web: Any, filled: ReportStore, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    registry.write_text(REGISTRY + OTHER)

    def only_bank(self: Any, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        return method == "GET" and details.id in ("cdc_recovery", "cdc_apply__bank")

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", only_bank)
    client = web("USER")
    shown = client.get(f"{PREFIX}/").text
    assert "pipelines/bank" in shown
    assert "pipelines/shop" not in shown
    assert client.get(f"{PREFIX}/pipelines/bank").status_code == 200
    assert [client.get(PREFIX + path).status_code for path in PAGES[1:]] == [403, 403, 403]


def test_a_team_sees_and_starts_its_own_recovery_only(
    web: Any, filled: ReportStore, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    registry.write_text(REGISTRY + "    airflow: {own_dags: true}\n" + OTHER + "    airflow: {own_dags: true}\n")
    asked = set()

    def of_shop(self: Any, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        asked.add((method, details.id))
        return str(details.id).endswith("__shop")

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", of_shop)
    client = web("USER")
    shown = client.get(f"{PREFIX}/").text
    assert "pipelines/shop" in shown
    assert "pipelines/bank" not in shown
    assert [client.get(PREFIX + path).status_code for path in PAGES[1:]] == [200, 200, 200]
    assert client.get(f"{PREFIX}/pipelines/bank").status_code == 403
    for name, status in (("shop", 403), ("bank", 403)):  # the form of shop is refused for its token alone
        answer = client.post(f"{PREFIX}/pipelines/{name}/recover", data={})
        assert answer.status_code == status
        assert ("This form has expired" in answer.text) == (name == "shop")
    assert ("POST", "cdc_recovery__shop") in asked
    assert ("POST", "cdc_recovery") not in asked


def test_who_may_read_the_shared_recovery_alone_does_not_see_a_pipeline_with_its_own(
    web: Any, filled: ReportStore, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    registry.write_text(REGISTRY + "    airflow: {own_dags: true}\n")

    def shared(self: Any, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        return details.id in ("cdc_recovery", "cdc_apply__shop")

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", shared)
    assert web("USER").get(f"{PREFIX}/pipelines/shop").status_code == 403


def test_the_buttons_of_a_pipeline_with_dags_of_its_own_lead_there(store: ReportStore, registry: Path) -> None:
    registry.write_text(REGISTRY + "    airflow: {own_dags: true}\n")
    declared = load_registry(registry)["shop"]
    keep(store, at(replace(HEALTHY, control=OPENED), 5))
    row = view.row(store, "shop", NOW, declared)
    assert [action.dag_id for action in row.actions] == ["cdc_recovery__shop", "cdc_abandon__shop"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", PAGES)
def test_nothing_can_be_changed_by_a_cookie_alone(method: str, path: str, web: Any, filled: ReportStore) -> None:
    before = {p: p.read_bytes() for p in Path(filled.root).rglob("*") if p.is_file()}
    answer = web("ADMIN").request(method, PREFIX + path, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 405
    assert {p: p.read_bytes() for p in Path(filled.root).rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    "path",
    [
        "/pipelines/shop/runs/%2e%2e",
        "/pipelines/shop/runs/%2e%2e/files/observation.json",
        "/pipelines/shop/runs/manual__1/files/../../../pipelines.yaml",
        "/pipelines/shop/runs/manual__1/files/%2e%2e/%2e%2e/%2e%2e/secret.json",
        "/pipelines/shop/runs/manual__1/files//etc/x.json",
        "/pipelines/shop/runs/manual__1/files/secret.txt",
        "/pipelines/nowhere",
        "/pipelines/shop/runs/nothing",
        "/pipelines/shop/runs/manual%00",
        "/pipelines/shop/runs/%0a",
        "/pipelines/shop/runs/manual__1/files/report%00.json",
        "/pipelines/shop/runs/manual%00/files/report.json",
        "/pipelines/shop%00",
    ],
)
def test_nothing_outside_the_reports_is_served(path: str, web: Any, filled: ReportStore, registry: Path) -> None:
    (registry.parent / "secret.json").write_text("s3cret")
    (registry.parent / "reports" / "shop" / "manual__1" / "secret.txt").write_text("s3cret")
    answer = web("ADMIN").get(PREFIX + path)
    assert answer.status_code == 404, answer.text
    assert "s3cret" not in answer.text


def test_pages_allow_no_script_and_data_docs_have_no_origin(web: Any, filled: ReportStore) -> None:
    filled.write("<script>alert(1)</script>", "shop", "manual__1", "data_docs", "index.html")
    client = web("VIEWER")
    page = client.get(f"{PREFIX}/pipelines/shop/runs/manual__1")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert 'files/data_docs/index.html">Data Docs' in page.text
    docs = client.get(f"{PREFIX}/pipelines/shop/runs/manual__1/files/data_docs/index.html")
    assert docs.headers["content-security-policy"].startswith("sandbox; default-src 'none'")


def test_a_pipeline_that_is_declared_badly_hides_no_other(web: Any, filled: ReportStore, registry: Path) -> None:
    registry.write_text(REGISTRY + OTHER.replace("namespace:", "name_space:"))
    client = web("VIEWER")
    overview = client.get(f"{PREFIX}/")
    assert overview.status_code == 200
    assert "shop" in overview.text
    assert "declared badly in pipelines.yaml" in overview.text
    assert "sink.namespace is missing" in overview.text
    assert client.get(f"{PREFIX}/pipelines/shop").status_code == 200
    wrong = client.get(f"{PREFIX}/pipelines/bank")
    assert wrong.status_code == 404
    assert "sink.namespace is missing" in wrong.text
    assert "sink.namespace is missing" not in web("").get(f"{PREFIX}/").text


def test_a_run_is_found_by_its_id_too(web: Any, filled: ReportStore) -> None:
    filled.keep_report(replace(REPORT, run_id="manual__2026-11-21T09:00:00+00:00"))
    answer = web("VIEWER").get(f"{PREFIX}/pipelines/shop/runs/manual__2026-11-21T09:00:00+00:00")
    assert answer.status_code == 200
    assert re.search(r"/runs/manual__2026-11-21T09_00_00_00_00(=|%3D)[0-9a-f]{8}/files/report\.json", answer.text)


def test_it_asks_no_source(web: Any, filled: ReportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is defined here, and none may be opened."""

    def refused(*args: Any, **kwargs: Any) -> None:
        raise AssertionError(f"the page opened a connection: {args}")

    monkeypatch.setattr(socket.socket, "connect", refused)
    client = web("VIEWER")
    assert [client.get(PREFIX + path).status_code for path in PAGES] == [200] * len(PAGES)


# ---- what it says -----------------------------------------------------------------------------------


def test_the_overview_says_what_is_stored_and_how_old_it_is(web: Any, filled: ReportStore) -> None:
    text = web("VIEWER").get(f"{PREFIX}/").text
    assert '<span class="badge red">GTID_PURGED</span>' in text
    assert re.search(r"\b\d+ min ago", text)
    assert 'title="0 B">0&nbsp;%' in text
    positions = web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    assert "mysql-bin.000009:500" in positions
    assert "mysql-bin.000008:4" in positions
    assert '<span class="badge green">MATCH</span>' in positions


def test_the_forecast_is_that_of_the_observation_and_of_no_earlier_one(web: Any, store: ReportStore) -> None:
    kept = Retention(expire_s=12_000, now=1_000_000, written_until=998_300.0)
    seen = with_source(retention=kept)
    store.keep_observation(StoredObservation.of(at(seen, 0), diagnose(seen)))
    assert "purge in 2 h" in web("VIEWER").get(f"{PREFIX}/").text
    keep(store, at(HEALTHY, 1))
    assert "purge in" not in web("VIEWER").get(f"{PREFIX}/").text


def test_events_that_wait_are_counted_and_those_in_front_of_their_topic_named(web: Any, store: ReportStore) -> None:
    ahead = {"shop": Ahead(4, 4, NOW.isoformat(), TopicOffsets("", {0: 7}))}
    topics = {TOPIC.name: replace(TOPIC, ahead=4)}
    queued = replace(waits(), sink=replace(applied("id1", 4), ahead=ahead))
    keep(store, at(replace(queued, transport=TransportFacts(topics, {"shop.orders": TOPIC.name})), 1))
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    assert "10 events, 4 of them not brought yet to where they are read" in text


def test_a_pipeline_has_a_timeline_with_evidence(web: Any, filled: ReportStore) -> None:
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    assert text.index("GTID_PURGED</span></td><td></td>") < text.index("recovery: GTID_PURGED → full_snapshot")
    assert text.index("recovery: GTID_PURGED") < text.index('<span class="badge green">HEALTHY</span>')
    assert "gtids missing" in text
    assert 'href="/cdc/pipelines/shop/recover"' in text


def test_inv_35_the_page_says_up_to_when_main_is_equal(web: Any, store: ReportStore) -> None:
    through = {"shop.orders": "2026-11-20T02:00:00.000+00:00"}
    store.keep_run("shop", ended(30, verified_through=through))
    store.keep_run("shop", checked(5, "shop.orders"))  # a later run that proves nothing takes nothing back
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    assert re.search(r"Main is proven equal up to.*shop\.orders</dt><dd>2026-11-20 02:00", text, re.DOTALL)


def test_a_report_shows_positions_counts_leaves_keys_and_steps(web: Any, store: ReportStore) -> None:
    made = replace(REPORT, tables=(replace(BAD, leaf_map="==~="),), verdict=None)
    store.keep_report(made)
    store.keep_run("shop", ended(1))
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop/runs/manual__1").text
    assert text.count('<i class="hot"') == 1
    assert text.count("equal at once") == 3
    assert "&lt;b&gt;8&lt;/b&gt;" in text
    assert "<b>8" not in text
    assert "mysql-bin.000009" in text
    assert "open_recovery" in text
    assert 'href="/dags/cdc_recovery/runs/manual__1"' in text
    assert "no Data Docs were written" in text


def test_a_report_leads_to_the_run_of_its_own_dag(web: Any, store: ReportStore) -> None:
    night = checked(1)
    store.keep_report(replace(REPORT, run_id=night.run_id))
    store.keep_run("shop", night)
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop/runs/{night.folder}").text
    assert 'href="/dags/cdc_nightly_consistency__shop/runs/scheduled__2026-11-21T02%3A00%3A00%2B00%3A00"' in text
    store.write("[]", "shop", "runs.json")  # of an old run it is not known any more
    assert "the run in Airflow" not in web("VIEWER").get(f"{PREFIX}/pipelines/shop/runs/{night.folder}").text


def test_recoveries_and_checks_have_columns_of_their_own(web: Any, store: ReportStore) -> None:
    keep(store, at(HEALTHY, 1))
    store.keep_run("shop", ended(30))
    store.keep_run("shop", checked(5, "shop.orders"))
    row = view.row(store, "shop", NOW)
    assert row.last_recovery is not None
    assert row.last_check is not None
    assert (row.last_recovery.run_id, row.last_check.verdict) == ("manual__1", "MISMATCH")


def test_rows_that_a_check_found_are_the_problem_of_a_pipeline_whose_position_is_good(
    web: Any, store: ReportStore
) -> None:
    keep(store, at(HEALTHY, 1))
    store.keep_run("shop", checked(5, "shop.orders"))
    text = web("VIEWER").get(f"{PREFIX}/").text
    assert '<span class="badge red">SINK_DIFFERS</span>' in text
    assert "shop.orders" in text
    assert 'href="/cdc/pipelines/shop/repair"' in text
    assert re.search(r'<a class="badge red" [^>]*>1 broken</a>', text)
    detail = web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    assert "approve the repair that the run asks for" in detail


def test_the_page_says_what_to_do(web: Any, filled: ReportStore) -> None:
    """Its runbook: the documentation may be out of reach at night."""
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    assert "<h2>What to do</h2>" in text
    assert "<strong>Do:</strong> trigger" in text
    assert "connector-failed.md" not in text
    # what it says of another system would mislead somebody at night
    assert "MariaDB" not in text
    keep(filled, at(HEALTHY, 1))
    assert "What to do" not in web("VIEWER").get(f"{PREFIX}/pipelines/shop").text


def test_an_open_recovery_can_be_given_up_by_a_button(web: Any, store: ReportStore) -> None:
    keep(store, at(replace(HEALTHY, control=ControlFacts(4, OpenFacts("manual__1", tables=("shop.orders",)))), 1))
    assert 'href="/dags/cdc_abandon"' in web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    keep(store, at(PURGED, 0))
    assert "cdc_abandon" not in web("VIEWER").get(f"{PREFIX}/pipelines/shop").text


def test_every_code_has_a_runbook() -> None:
    assert [row.code for row in PROBLEMS if not runbook_html(row.code)] == []
    assert runbook_html("SINK_DIFFERS")
    assert runbook_html(NOT_OBSERVED) == ""


def test_the_runbook_of_a_pipeline_leaves_out_other_systems_but_not_all_there_is() -> None:
    others = titles_of_others(PIPELINE)
    assert {"MariaDB", "PostgreSQL", "Canal", "Flink CDC"} <= others
    assert not {"MySQL", "Debezium", "Kafka"} & others
    assert "MariaDB" in runbook_html("GTID_PURGED")
    assert "MariaDB" not in runbook_html("GTID_PURGED", others)
    settings = runbook_html("SOURCE_MISCONFIGURED", others)
    assert "binlog_row_image" in settings
    assert "publish_via_partition_root" not in settings
    assert "binlog_row_image" in runbook_html("SOURCE_MISCONFIGURED", others - {"MariaDB"} | {"MySQL"})
    assert runbook_html("SLOT_MISSING", others) == runbook_html("SLOT_MISSING") != ""


def test_a_report_shows_both_rows_of_the_keys_that_it_names(web: Any, store: ReportStore) -> None:
    store.keep_report(replace(REPORT, tables=(replace(BAD, samples=(PAIR.sample,)),), verdict=None))
    path = f"{PREFIX}/pipelines/shop/runs/manual__1"
    assert "no such row" not in web("VIEWER").get(path).text
    store.write(json.dumps([plain(PAIR)]), "shop", "manual__1", rows_file("shop.events"))
    text = web("VIEWER").get(path).text
    assert "differs in name" in text
    assert "&lt;b&gt;ann&lt;/b&gt;" in text


def test_a_report_without_a_map_of_leaves_says_so(web: Any, store: ReportStore) -> None:
    store.keep_report(replace(REPORT, tables=(TABLE,)))
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop/runs/manual__1").text
    assert "has no map of the leaves" in text
    assert "lists no differing key" in text


def test_what_can_not_be_read_is_said_and_hides_nothing_else(web: Any, filled: ReportStore, registry: Path) -> None:
    registry.write_text(REGISTRY + OTHER)
    filled.write("{", "bank", "observation.json")
    text = web("VIEWER").get(f"{PREFIX}/").text
    assert "has an unknown form" in text
    assert "GTID_PURGED" in text


def test_a_bad_registry_is_one_page_that_names_it(web: Any, filled: ReportStore, registry: Path) -> None:
    registry.write_text("pipelines: [")
    answer = web("VIEWER").get(f"{PREFIX}/")
    assert answer.status_code == 500
    assert "the registry is not YAML" in answer.text
    assert "pipelines.yaml, line 2, column 1" in answer.text


def test_without_a_registry_it_says_what_to_do(web: Any, registry: Path) -> None:
    registry.unlink()
    assert "airflow cdc init" in web("VIEWER").get(f"{PREFIX}/").text


# ---- what to press, and finding it ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obs", "label", "link"),
    [
        (PURGED, "Recover…", "/cdc/pipelines/shop/recover"),
        (
            with_connector(tasks=(TaskState(0, "FAILED", TRANSIENT),)),
            "Restart the connector…",
            "/cdc/pipelines/shop/recover",
        ),
        (with_connector(state="STOPPED", tasks=()), "What to do", "/cdc/runbook#connector_stopped"),
        (replace(HEALTHY, source=Unknown("timed out")), "See the runbook", "/cdc/runbook#unknown"),
        (replace(HEALTHY, control=OPENED), "Follow the recovery", "/dags/cdc_recovery/runs/manual__7"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_button_fits_the_problem(obs: Observation, label: str, link: str, web: Any, store: ReportStore) -> None:
    keep(store, at(obs, 1))
    for path in ("/", "/pipelines/shop"):
        assert f'href="{link}"' in web("VIEWER").get(PREFIX + path).text
        assert label in web("VIEWER").get(PREFIX + path).text


def test_a_healthy_pipeline_has_no_button(web: Any, store: ReportStore) -> None:
    keep(store, at(HEALTHY, 1))
    assert 'class="button"' not in web("VIEWER").get(f"{PREFIX}/").text


@pytest.mark.parametrize("code", sorted({row.code for row in PROBLEMS} - {"HEALTHY"}))
def test_every_problem_has_a_button_that_says_why(code: str) -> None:
    row = next(row for row in PROBLEMS if row.code == code)
    diagnosis = replace(diagnose(HEALTHY), code=code, strategies=row.strategies)
    first = actions_for(code, diagnosis)[0]
    assert first.label
    assert first.why.endswith(".")


def test_the_overview_says_what_cannot_be_reached(web: Any, store: ReportStore) -> None:
    keep(store, at(replace(HEALTHY, source=Unknown("db1:3306 timed out")), 1))
    text = web("VIEWER").get(f"{PREFIX}/").text
    assert "source could not be read" in text
    assert "db1:3306 timed out" in text


def row_of(name: str, colour: Colour = Colour.GREEN, **changes: Any) -> view.Row:
    blank = view.Row(name, "HEALTHY", "All is well.", colour, None, "", stale=False, since="", runs=())
    return replace(blank, **changes)


def test_what_loses_rows_stands_before_what_only_stands_still(store: ReportStore) -> None:
    for name, obs in (("a", with_connector(tasks=(TaskState(0, "FAILED", TRANSIENT),))), ("b", PURGED), ("c", HEALTHY)):
        seen = StoredObservation.of(at(obs, 1), diagnose(obs))
        store.keep_observation(replace(seen, pipeline=name))
    assert [row.name for row in view.overview(store, ["a", "b", "c"], NOW)] == ["b", "a", "c"]


def test_two_hundred_pipelines_are_searched_and_paged() -> None:
    rows = [row_of(f"p{number:03}", Colour.RED if number % 20 == 0 else Colour.GREEN) for number in range(200)]
    first = view.listing(rows)
    assert (len(first.rows), first.total, first.pages) == (50, 200, 4)
    assert [row.name for row in view.listing(rows, page=4).rows] == [f"p{number:03}" for number in range(150, 200)]
    assert view.listing(rows, page=99).page == 4
    assert view.listing(rows, page=-1).page == 1
    assert view.listing(rows, state="red").total == 10
    assert [row.name for row in view.listing(rows, "P1", "red").rows] == ["p100", "p120", "p140", "p160", "p180"]
    assert view.listing(rows, "nothing").rows == []


@pytest.mark.parametrize(
    "asked", ["?q=<script>alert(1)</script>", '?q="onfocus="x', "?state=<b>", "?page=0", "?page=999"]
)
def test_what_is_searched_for_is_text(asked: str, web: Any, filled: ReportStore) -> None:
    answer = web("VIEWER").get(f"{PREFIX}/{asked}")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert '"onfocus="' not in answer.text


# ---- colours ----------------------------------------------------------------------------------------


def test_every_code_has_a_colour_and_a_new_one_is_red() -> None:
    assert colour_of("A_NEW_CODE") is Colour.RED
    codes = {row.code for row in PROBLEMS}
    assert set(CODES) - codes == {NOT_OBSERVED, RECOVERED}
    assert {code for code in codes if colour_of(code) is Colour.GREEN} == {"HEALTHY"}


@pytest.mark.parametrize(
    ("obs", "run", "code", "colour"),
    [
        (None, None, NOT_OBSERVED, Colour.AMBER),
        (at(HEALTHY, 1), None, "HEALTHY", Colour.GREEN),
        (at(HEALTHY, 61), None, "HEALTHY", Colour.AMBER),
        (at(replace(HEALTHY, source=Unknown("refused")), 1), None, "UNKNOWN", Colour.AMBER),
        (at(PURGED, 5), None, "GTID_PURGED", Colour.RED),
        (at(PURGED, 500), None, "GTID_PURGED", Colour.RED),
        (at(PURGED, 5), ended(1), RECOVERED, Colour.AMBER),
        (at(PURGED, 5), ended(9), "GTID_PURGED", Colour.RED),
        (at(PURGED, 5), ended(1, "INCONCLUSIVE"), "GTID_PURGED", Colour.RED),
        (at(HEALTHY, 5), ended(1), "HEALTHY", Colour.GREEN),
        (at(HEALTHY, 1), checked(5), "HEALTHY", Colour.GREEN),
        (at(HEALTHY, 1), checked(5, "shop.orders"), "SINK_DIFFERS", Colour.RED),
        (None, checked(5, "shop.orders"), "SINK_DIFFERS", Colour.RED),
        (at(DIFFERING, 1), checked(5, "shop.orders"), "SINK_DIFFERS", Colour.RED),
        (at(DIFFERING, 5), checked(1), RECOVERED, Colour.AMBER),
        (at(PURGED, 1), checked(5, "shop.orders"), "GTID_PURGED", Colour.RED),
        (at(PURGED, 5), checked(1), "GTID_PURGED", Colour.RED),
    ],
)
def test_green_is_only_what_was_seen_whole_lately(
    obs: Observation | None, run: RunSummary | None, code: str, colour: Colour, store: ReportStore
) -> None:
    if obs:
        keep(store, obs)
    if run:
        store.keep_run("shop", run)
    row = view.row(store, "shop", NOW)
    assert (row.code, row.colour) == (code, colour)
    assert present_code(row.seen, [run] if run else []) == code
    assert row.meaning


def test_the_worst_comes_first(store: ReportStore) -> None:
    for name, obs in (("a", at(HEALTHY, 1)), ("b", at(PURGED, 1)), ("c", at(with_connector(offset=None), 1))):
        store.keep_observation(replace(StoredObservation.of(obs, diagnose(obs)), pipeline=name))
    rows = view.overview(store, ["a", "b", "c", "d"], NOW)
    assert [(row.name, row.colour) for row in rows] == [
        ("b", Colour.RED),
        ("c", Colour.RED),
        ("d", Colour.AMBER),
        ("a", Colour.GREEN),
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0 s ago"), (59, "59 s ago"), (61, "1 min ago"), (7300, "2 h ago"), (90000, "1 d ago")]
)
def test_ages(seconds: float, said: str) -> None:
    assert view.ago((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 60, "1048576.0 TiB")]
)
def test_sizes(count: int, said: str) -> None:
    assert view.size(count) == said
