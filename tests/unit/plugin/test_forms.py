"""The page's forms: who may send them, what they trigger and keep, and that a foreign site can't send them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec
from urllib.parse import unquote

import pytest
from airflow.api.common.delete_dag import delete_dag
from airflow.api.common.trigger_dag import trigger_dag
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.exceptions import DagNotFound
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import delete, select

from airflow_cdc.alerting.outage import OutageLog, Sighting, advance
from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.forecast import PurgeForecast
from airflow_cdc.core.pipeline import AlertPolicy
from airflow_cdc.decisions.diagnosis.strategy import choices
from airflow_cdc.kinds import rules_for
from airflow_cdc.plugin import PREFIX, forms, view
from airflow_cdc.plugin.action import actions_for
from airflow_cdc.plugin.chart import retention_chart
from airflow_cdc.plugin.colour import Colour
from airflow_cdc.plugin.running import RunningRun
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import KEPT_SAMPLES, Sample, Silence, StoredObservation, thinned
from tests.diagnosing import diagnose
from tests.paths import ROOT
from tests.unit.builders import PIPELINE, with_source
from tests.unit.conftest import REGISTRY
from tests.unit.plugin.test_page import NOW, PURGED, at, ended, keep

RECOVER, REPAIR, SILENCE = (f"{PREFIX}/pipelines/shop/{form}" for form in ("recover", "repair", "silence"))
SHOWN: dict[str, Any] = {"shown": list(PIPELINE.source.tables)}
SENT = {
    "recover": {"strategy": "auto", **SHOWN},
    "repair": SHOWN,
    "silence": {"reason": "disk is on its way", "length": "4h"},
}


@pytest.fixture
def store(registry: Path) -> ReportStore:
    made = ReportStore(str(registry.parent / "reports"))
    obs = at(PURGED, 5)
    diagnosis = diagnose(obs)
    made.keep_observation(StoredObservation.of(obs, diagnosis, None, choices(diagnosis, obs, rules_for(PIPELINE))))
    return made


@pytest.fixture
def triggered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Airflow's own trigger, which answers with a run."""
    fake = create_autospec(trigger_dag)
    fake.return_value.run_id = "manual__9"
    monkeypatch.setattr(forms, "trigger_dag", fake)
    return fake


def token(client: Any, path: str) -> str:
    match = re.search(r'name="token" value="(\w+)"', client.get(path).text)
    assert match
    return match[1]


# ---- who may send them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SENT)
def test_a_foreign_site_sends_nothing(form: str, web: Any, store: ReportStore, triggered: Any) -> None:
    client, path = web("ADMIN"), f"{PREFIX}/pipelines/shop/{form}"
    good = token(client, path)
    for fields, headers in (
        ({}, {}),
        ({"token": "0" * 64}, {}),
        ({"token": token(client, path.replace("shop", "shop"))[:-1]}, {}),
        ({"token": good}, {"Sec-Fetch-Site": "cross-site"}),
        ({"token": good}, {"Sec-Fetch-Site": "same-site"}),
    ):
        assert client.post(path, data={**SENT[form], **fields}, headers=headers).status_code == 403
    triggered.assert_not_called()
    assert store.silences("shop") == []


@pytest.mark.parametrize("form", SENT)
def test_another_sessions_token_is_none(form: str, web: Any, store: ReportStore, triggered: Any) -> None:
    path = f"{PREFIX}/pipelines/shop/{form}"
    theirs, mine = web("VIEWER"), web("ADMIN")
    assert mine.post(path, data={**SENT[form], "token": token(theirs, path)}).status_code == 403
    triggered.assert_not_called()


@pytest.mark.parametrize("form", SENT)
@pytest.mark.parametrize(("role", "answer"), [(None, 401), ("", 403), ("VIEWER", 403), ("OP", 303), ("ADMIN", 303)])
def test_who_may_trigger_the_recovery_may_send_them(  # noqa: PLR0917 - pytest hands them over by name
    form: str, role: str | None, answer: int, web: Any, store: ReportStore, triggered: Any
) -> None:
    path = f"{PREFIX}/pipelines/shop/{form}"
    client = web(role)
    sent = {**SENT[form], "token": token(client, path) if role else "x"} if role else SENT[form]
    assert client.post(path, data=sent).status_code == answer
    assert triggered.called == (answer == 303 and form != "silence")


# ---- what they do --------------------------------------------------------------------------------------------------


def test_a_recovery_is_triggered_as_asked_in_the_users_name(web: Any, store: ReportStore, triggered: Any) -> None:
    client = web("OP")
    sent = {
        "token": token(client, RECOVER),
        "strategy": "full_snapshot",
        "tables": ["shop.orders"],
        "note": "x",
    }
    answer = client.post(RECOVER, data=sent)
    assert answer.headers["location"] == "/dags/cdc_recovery/runs/manual__9"
    asked = triggered.call_args
    assert asked.args == ("cdc_recovery",)
    assert asked.kwargs["triggering_user_name"] == "u"
    conf = {"pipeline": "shop", "strategy": "full_snapshot", "tables": ["shop.orders"], "note": "x"}
    assert asked.kwargs["conf"] == conf


def test_only_what_can_be_carried_out_is_offered_in_plain_words(web: Any, store: ReportStore, triggered: Any) -> None:
    client = web("OP")
    text = client.get(RECOVER).text
    assert re.findall(r'name="strategy" value="(\w+)"', text) == ["auto", "full_snapshot", "diff_repair"]
    assert "All declared tables are re-read" in text
    assert re.search(r"Not possible now: <code>replica_detour</code>: \w", text)
    refused = client.post(RECOVER, data={"token": token(client, RECOVER), "strategy": "restart"})
    assert refused.status_code == 400
    triggered.assert_not_called()


def test_a_repair_comes_with_the_tables_that_differ(web: Any, store: ReportStore, triggered: Any) -> None:
    store.keep_run("shop", ended(5, "MISMATCH", differs=("shop.orders",)))
    client = web("OP")
    assert 'value="shop.orders" checked' in client.get(REPAIR).text
    answer = client.post(REPAIR, data={"token": token(client, REPAIR), "tables": "shop.orders"})
    assert answer.headers["location"] == "/dags/cdc_repair/runs/manual__9"
    conf = {"pipeline": "shop", "tables": ["shop.orders"], "dry_run": False, "note": ""}
    assert triggered.call_args.kwargs["conf"] == conf


@pytest.mark.parametrize("path", [RECOVER, REPAIR])
@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ({"tables": ["shop.gone"], **SHOWN}, "shop.gone: not declared"),
        ({"tables": ["shop.orders", "shop.gone"], **SHOWN}, "shop.gone: not declared"),
        ({"shown": [*PIPELINE.source.tables, "shop.gone"]}, "does not agree on shop.gone"),
        ({"shown": list(PIPELINE.source.tables)[:-1]}, PIPELINE.source.tables[-1]),
        ({}, PIPELINE.source.tables[0]),
    ],
)
def test_an_old_form_starts_nothing_and_the_table_is_named(  # noqa: PLR0917 - pytest hands them over by name
    path: str, sent: dict[str, Any], named: str, web: Any, store: ReportStore, triggered: Any
) -> None:
    client = web("OP")
    answer = client.post(path, data={"token": token(client, path), **sent})
    assert answer.status_code == 400
    assert named in answer.text
    triggered.assert_not_called()


@pytest.mark.parametrize("path", [RECOVER, REPAIR])
def test_a_form_that_shows_what_is_declared_means_all_if_nothing_is_chosen(
    path: str, web: Any, store: ReportStore, triggered: Any
) -> None:
    client = web("OP")
    page = client.get(path).text
    shown = re.findall(r'name="shown" value="([^"]+)"', page)
    assert client.post(path, data={"token": token(client, path), "shown": shown}).status_code == 303
    assert triggered.call_args.kwargs["conf"]["tables"] == []


def test_a_dag_that_is_not_there_is_said(web: Any, store: ReportStore, dag_is_unknown: None) -> None:
    client = web("OP")
    answer = client.post(RECOVER, data={"token": token(client, RECOVER), **SENT["recover"]})
    assert answer.status_code == 500
    assert "cdc_recovery could not be triggered: DagNotFound" in answer.text


# ---- acknowledged and muted ----------------------------------------------------------------------------------------


def test_an_acknowledgement_is_kept_shown_and_taken_back(web: Any, store: ReportStore) -> None:
    client = web("OP")
    sent = {"token": token(client, SILENCE), "reason": "<b>disk</b> is on its way", "length": "4h"}
    assert client.post(SILENCE, data=sent).headers["location"] == f"{PREFIX}/pipelines/shop"
    (kept,) = store.silences("shop")
    assert (kept.by, kept.code, kept.reason) == ("u", "GTID_PURGED", "<b>disk</b> is on its way")
    assert datetime.fromisoformat(kept.until) - datetime.fromisoformat(kept.at) == timedelta(hours=4)
    for path in ("/", "/pipelines/shop"):
        text = client.get(PREFIX + path).text
        assert re.search(r"[aA]cknowledged by (<strong>)?u", text)
        assert "&lt;b&gt;disk" in text
    client.post(f"{SILENCE}/end", data={"token": token(client, SILENCE)})
    (kept,) = store.silences("shop")
    assert kept.ended_by == "u"
    assert "taken back" in client.get(f"{PREFIX}/pipelines/shop").text


@pytest.mark.parametrize("fields", [{"reason": " "}, {"length": "forever"}, {"length": ""}])
def test_a_reason_and_an_end_are_needed(fields: dict[str, str], web: Any, store: ReportStore) -> None:
    client = web("OP")
    sent = {"token": token(client, SILENCE), "reason": "x", "length": "1h", **fields}
    assert client.post(SILENCE, data=sent).status_code == 400
    assert store.silences("shop") == []


@pytest.mark.parametrize(
    ("silence", "code", "hours", "covered"),
    [
        ("GTID_PURGED", "GTID_PURGED", 1, True),
        ("GTID_PURGED", "CONNECTOR_FAILED", 1, False),
        ("", "CONNECTOR_FAILED", 1, True),
        ("", "GTID_PURGED", 5, False),
        ("", "GTID_PURGED", -1, False),
    ],
)
def test_what_a_silence_covers(silence: str, code: str, hours: int, covered: bool) -> None:
    made = Silence("u", NOW.isoformat(), (NOW + timedelta(hours=4)).isoformat(), "why", silence)
    moment = (NOW + timedelta(hours=hours)).isoformat()
    assert made.covers(code, moment) is covered
    assert not replace(made, ended_at=NOW.isoformat(), ended_by="u").covers(code, moment)


def test_nobody_is_told_while_it_is_silenced_and_everybody_afterwards() -> None:
    def looked(log: OutageLog, minutes: int, code: str = "GTID_PURGED", *, silenced: bool = False) -> Any:
        moment = (datetime(2026, 11, 23, tzinfo=UTC) + timedelta(minutes=minutes)).isoformat()
        ranks = {"GTID_PURGED": (31,), "HEALTHY": (99,)}
        return advance("shop", log, Sighting(code, 1, moment, silenced=silenced), AlertPolicy(), ranks)

    first = looked(OutageLog(), 0, silenced=True)
    assert first.alerts == ()
    assert looked(first.log, 300, silenced=True).alerts == ()
    after = looked(first.log, 301)
    assert [str(alert.status) for alert in after.alerts] == ["firing"]
    over = looked(looked(after.log, 310, "HEALTHY", silenced=True).log, 320, "HEALTHY", silenced=True)
    assert [str(alert.status) for alert in over.alerts] == ["resolved"]


# ---- retention, runs at work, owners --------------------------------------------------------------------------------


def test_the_retention_is_a_line_with_the_moment_of_the_purge(web: Any, store: ReportStore) -> None:
    assert retention_chart(None) is None
    keep(store, at(with_source(), 90))
    seen = store.observation("shop")
    assert seen
    samples = tuple(Sample((NOW - timedelta(hours=h)).isoformat(), h / 10) for h in range(9, -1, -1))
    store.keep_observation(replace(seen, samples=samples, forecast=PurgeForecast(7200.0, False, "x")))
    chart = retention_chart(store.observation("shop"))
    assert chart
    assert len(chart.line.split()) == 10
    assert chart.purge is not None
    assert chart.purge.x > chart.now.x > chart.start.x
    text = web("VIEWER").get(f"{PREFIX}/pipelines/shop").text
    assert "purge from" in text
    assert '<polyline class="seen"' in text


def test_samples_reach_back_and_stay_few() -> None:
    kept: tuple[Sample, ...] = ()
    for n in range(5000):
        kept = thinned((*kept, Sample((NOW + timedelta(minutes=n)).isoformat(), 0.5)))
        assert len(kept) <= KEPT_SAMPLES
    assert kept[0].at == NOW.isoformat()
    assert kept[-1].at == (NOW + timedelta(minutes=4999)).isoformat()


def test_an_observation_of_an_earlier_version_is_read(store: ReportStore) -> None:
    seen = store.observation("shop")
    assert seen
    old = {key: value for key, value in plain(seen).items() if key not in ("samples", "choices")}
    assert read(StoredObservation, json.loads(json.dumps(old))) == replace(seen, samples=(), choices={})


def test_a_run_at_work_is_followed_and_one_that_asks_is_answered() -> None:
    work = RunningRun("cdc_recovery", "r1", NOW, "recover", "running")
    (follow,) = actions_for("GTID_PURGED", None, running=work)
    assert (follow.label, follow.run_id) == ("Follow the run", "r1")
    (answer,) = actions_for("GTID_PURGED", None, running=replace(work, step="approve", state="awaiting_input"))
    assert answer.label == "Approve or reject…"
    assert answer.asks


def test_a_run_at_work_says_when_it_ends() -> None:
    last = replace(ended(300), seconds=600.0)
    work = RunningRun("cdc_recovery", "r1", NOW - timedelta(seconds=120), "recover", "running")
    row = view.Row("p", "X", "", Colour.RED, None, "", stale=False, since="", runs=[last], running=work, now=NOW)
    assert row.expected == "ends in about 8 min"
    late = replace(row, running=replace(work, began=NOW - timedelta(seconds=720)))
    assert late.expected == "has taken 2 min longer than the last one"
    assert replace(row, runs=[]).expected == ""


def test_pipelines_are_filtered_by_owner_and_tag(web: Any, store: ReportStore, registry: Path) -> None:
    other = REGISTRY.replace("pipelines:", "").replace("shop", "bank")
    registry.write_text(f"{REGISTRY}    owner: crm\n    tags: [gold, pii]\n{other}    owner: money\n")
    client = web("VIEWER")

    def shown(query: str) -> list[str]:
        return re.findall(r'pipelines/(\w+)"><strong>', client.get(f"{PREFIX}/{query}").text)

    assert sorted(shown("")) == ["bank", "shop"]
    assert shown("?owner=money") == ["bank"]
    assert shown("?tag=pii") == ["shop"]
    assert shown("?q=crm") == ["shop"]
    assert shown("?owner=money&tag=pii") == []


def test_a_new_owner_ends_no_recovery() -> None:
    assert replace(PIPELINE, owner="crm", tags=("gold",)).hash == PIPELINE.hash
    assert replace(PIPELINE, name="other").hash != PIPELINE.hash


def test_the_page_follows_airflows_switch(web: Any, store: ReportStore) -> None:
    """One script, allowed by its hash: it reads what Airflow's switch keeps."""
    answer = web("VIEWER").get(f"{PREFIX}/")
    assert answer.text.count("<script>") == 1
    assert 'localStorage.getItem("theme")' in answer.text
    policy = answer.headers["content-security-policy"]
    assert re.search(r"script-src 'sha256-[\w+/=]+';", policy)
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


# ---- with Airflow's own trigger and database ------------------------------------------------------------------------


@pytest.fixture
def dag_is_unknown(airflow_db: Path) -> None:
    """No cdc_recovery in Airflow's database, nor a run of it: tests that ran before in this process may have left both."""
    with suppress(DagNotFound):
        delete_dag("cdc_recovery")
    with create_session() as session:
        session.execute(delete(DagRun))


@pytest.fixture
def dag_is_known(dag_is_unknown: None, registry: Path) -> Iterator[None]:
    """cdc_recovery in Airflow's database, as the DAG processor leaves it."""
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call] # Airflow gives it no types
    bag = DagBag(
        dag_folder=str(ROOT / "dags" / "cdc_recovery.py"), bundle_name="dags-folder", bundle_path=ROOT / "dags"
    )
    sync_bag_to_db(bag, "dags-folder", None)
    yield
    delete_dag("cdc_recovery")


def test_the_form_makes_a_real_run_which_the_page_then_shows(web: Any, store: ReportStore, dag_is_known: None) -> None:
    client = web("OP")
    sent = {"token": token(client, RECOVER), "strategy": "full_snapshot", "note": "paged", **SHOWN}
    answer = client.post(RECOVER, data=sent)
    assert answer.status_code == 303, answer.text
    with create_session() as session:
        (run,) = session.scalars(select(DagRun)).all()
        triggered = run.run_id, run.conf, run.triggering_user_name, str(run.state)
    run_id, conf, user, state = triggered
    assert unquote(answer.headers["location"]) == f"/dags/cdc_recovery/runs/{run_id}"
    assert conf == {"pipeline": "shop", "strategy": "full_snapshot", "tables": [], "note": "paged"}
    assert (user, state) == ("u", "queued")
    for path in ("/", "/pipelines/shop"):
        assert "Follow the run" in client.get(PREFIX + path).text
