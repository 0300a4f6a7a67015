"""`make pictures`: the pictures of the page in docs/images, one per state, by a real Chromium from the real application.

The application is served over HTTP as Airflow mounts it, with its sign-in and its headers; what it reads is stored here as
diagnoses and runs store it. No pipeline runs: the states come side by side in half a minute, and stay current when the page
changes. The way through the page on real servers is tests/e2e/test_browser.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from selenium.webdriver.chrome.webdriver import WebDriver

from airflow_cdc.core.observation import ControlFacts, Observation, OpenFacts, TaskState, Unknown
from airflow_cdc.core.report import RecoveryReport, StepReport, Verdict
from airflow_cdc.decisions.diagnosis.strategy import choices
from airflow_cdc.kinds import rules_for
from airflow_cdc.plugin import PREFIX, CdcPlugin, app
from airflow_cdc.plugin.running import RunningRun
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import CHECK, RECOVERY, RunSummary, Sample, Silence, StoredObservation
from stack.browser import chromium
from stack.ports import free_port
from stack.process import wait_until
from tests.diagnosing import diagnose
from tests.paths import ROOT
from tests.unit.builders import HEALTHY, PIPELINE, with_connector, with_source
from tests.unit.conftest import REGISTRY, airflow_db, registry
from tests.unit.core.test_report import REPORT, TABLE
from tests.unit.faults import TRANSIENT

__all__ = ["airflow_db", "registry"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
IMAGES = ROOT / "docs" / "images"
NOW = datetime.now(UTC)
RUN = "manual__2026-11-23T02:14:07+00:00"
PURGED = with_source(gtid_purged=HEALTHY.source.gtid_executed)  # type: ignore[union-attr]
FAILED = with_connector(tasks=(TaskState(0, "FAILED", TRANSIENT),))
OPENED = replace(HEALTHY, control=ControlFacts(3, recovery=OpenFacts(RUN, NOW.isoformat())))
UNREACHABLE = replace(HEALTHY, source=Unknown("cannot connect: timed out (db7.crm:3306)"))
# name → what was observed, who owns it, its tags
PIPELINES: Mapping[str, tuple[Observation, str, tuple[str, ...]]] = {
    "shop": (PURGED, "crm", ("gold",)),
    "billing": (HEALTHY, "money", ("gold", "pii")),
    "stock": (FAILED, "logistics", ()),
    "claims": (UNREACHABLE, "money", ("pii",)),
    "fleet": (with_connector(state="STOPPED", tasks=()), "logistics", ()),
    "search": (OPENED, "web", ()),
    "ledger": (HEALTHY, "money", ("gold",)),
}


@dataclass(frozen=True, slots=True)
class Site:
    """The page under its address, what it reads, and a browser that is signed in."""

    url: str
    store: ReportStore
    registry: Path
    running: dict[str, RunningRun]
    browser: WebDriver

    def shoot(self, path: str, name: str) -> None:
        """The picture of a page. A page that scrolls sideways on a laptop, or is an error, is none."""
        self.browser.get(self.url + PREFIX + path)
        assert self.browser.title not in ("", "401", "403", "404", "500")
        assert self.browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        IMAGES.mkdir(exist_ok=True)
        self.browser.save_screenshot(str(IMAGES / f"{name}.png"))


@pytest.fixture
def site(airflow_db: Path, registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    from airflow.api_fastapi import app as airflow_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi import FastAPI

    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "0123456789abcdef" * 4)
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(tmp_path / "passwords.json"))
    running: dict[str, RunningRun] = {}
    monkeypatch.setattr(app, "running_runs", lambda _names: running)
    root = FastAPI()
    root.mount(PREFIX, CdcPlugin.fastapi_apps[0]["app"])
    manager = airflow_app.init_auth_manager(root)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(root, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or None, timeout=60, what="the page to be served")
        with chromium(tmp_path) as browser:
            url = f"http://127.0.0.1:{port}"
            browser.get(f"{url}{PREFIX}/")  # a cookie is set for the site that is open
            token = manager.generate_jwt(SimpleAuthManagerUser(username="ann", role="ADMIN"))
            browser.add_cookie({"name": "_token", "value": token})
            yield Site(url, ReportStore(str(registry.parent / "reports")), registry, running, browser)
    finally:
        server.should_exit = True
        thread.join(30)
        airflow_app.purge_cached_app()


def test_pictures(site: Site) -> None:
    fill(site, PIPELINES)
    site.shoot("/", "overview-broken")
    site.shoot("/pipelines/shop", "pipeline-broken")
    site.shoot("/pipelines/shop/recover", "form")
    site.shoot("/pipelines/shop/silence", "form-acknowledge")
    site.shoot("/pipelines/stock", "pipeline-failed")
    site.shoot("/pipelines/claims", "pipeline-unreachable")
    site.shoot("/pipelines/billing", "pipeline-differs")
    site.shoot("/pipelines/billing/repair", "form-repair")
    site.shoot("/pipelines/ledger", "pipeline-at-risk")
    site.shoot(f"/pipelines/shop/runs/{RUN}", "report")
    at_work(site)
    muted(site)
    dark(site)
    many(site)


def at_work(site: Site) -> None:
    site.running["shop"] = RunningRun("cdc_recovery", RUN, NOW - timedelta(seconds=95), "verify", "running")
    site.shoot("/pipelines/shop", "pipeline-at-work")
    site.running["shop"] = RunningRun("cdc_recovery", RUN, NOW - timedelta(seconds=20), "approve", "awaiting_input")
    site.shoot("/pipelines/shop", "pipeline-asks")
    site.running.clear()


def muted(site: Site) -> None:
    until, why = (NOW + timedelta(hours=4)).isoformat(), "db1's disk was full; the storage team adds one by 06:00"
    site.store.keep_silences("shop", [Silence("ann", NOW.isoformat(), until, why, "GTID_PURGED")])
    site.shoot("/pipelines/shop", "pipeline-acknowledged")


def dark(site: Site) -> None:
    """By what Airflow's switch keeps in the browser."""
    site.browser.execute_script("localStorage.setItem('theme', 'dark')")
    site.shoot("/", "overview-dark")
    assert site.browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    site.browser.execute_script("localStorage.setItem('theme', 'light')")


def many(site: Site) -> None:
    words = ("billing", "crm", "orders", "stock", "ledger", "fleet", "claims", "search")
    seen = (*[HEALTHY] * 17, PURGED, *[HEALTHY] * 9, UNREACHABLE, *[HEALTHY] * 11, FAILED)
    fill(
        site,
        {
            f"{words[n % 8]}_{n:03}": (seen[n % len(seen)], f"team-{n % 10}", ("gold",) if n % 2 else ("pii", "eu"))
            for n in range(200)
        },
    )
    site.shoot("/", "overview-200")
    site.shoot("/?tag=gold&owner=team-3", "overview-filtered")
    assert "20 pipelines" in site.browser.page_source


def fill(site: Site, pipelines: Mapping[str, tuple[Observation, str, tuple[str, ...]]]) -> None:
    """Write the registry, and for each pipeline what diagnoses and runs would have stored."""
    model = yaml.safe_load(REGISTRY)["pipelines"]["shop"]
    declared = {name: declared_as(model, name, owner, tags) for name, (_, owner, tags) in pipelines.items()}
    site.registry.write_text(yaml.safe_dump({"pipelines": declared}))
    for n, (name, (obs, _, _)) in enumerate(pipelines.items()):
        site.store.keep_observation(observed(obs, name, minutes=1 + n % 9))
        site.store.keep_run(name, ended(name, CHECK, minutes=40 + 13 * (n % 9)))
    if "billing" in pipelines:
        site.store.keep_run(
            "billing", ended("billing", CHECK, minutes=12, verdict="MISMATCH", differs=("shop.orders",))
        )
        site.store.keep_run("shop", ended("shop", RECOVERY, minutes=3000))
        site.store.keep_report(the_report())


def declared_as(model: Mapping[str, Any], name: str, owner: str, tags: tuple[str, ...]) -> dict[str, Any]:
    parts = {**model, "connector": {**model["connector"], "name": name}, "sink": {**model["sink"], "namespace": name}}
    return {**parts, "owner": owner, "tags": list(tags)}


def observed(obs: Observation, name: str, minutes: int) -> StoredObservation:
    """With thirty hours of looks behind it, in which the log before the position was used up."""
    at = replace(obs, taken_at=(NOW - timedelta(minutes=minutes)).isoformat())
    diagnosis = diagnose(at)
    made = StoredObservation.of(at, diagnosis, None, choices(diagnosis, at, rules_for(PIPELINE)))
    lost = name == "shop"
    start = NOW - timedelta(minutes=minutes)
    left = [max(0.0, 0.93 - 0.031 * h) if lost else 0.62 - 0.011 * h + 0.02 * (h % 3) for h in range(31)]
    samples = tuple(Sample((start - timedelta(hours=30 - h)).isoformat(), share) for h, share in enumerate(left))
    forecast = {"earliest_s": 14_400.0, "basis": "closed 3 h ago, kept 7 h, gone at a rotation after"}
    return replace(made, pipeline=name, samples=samples, forecast=forecast if name in ("ledger", "stock") else None)


def ended(name: str, kind: str, *, minutes: int, verdict: str = "MATCH", differs: tuple[str, ...] = ()) -> RunSummary:
    when = NOW - timedelta(minutes=minutes)
    dag_id = "cdc_recovery" if kind == RECOVERY else f"cdc_nightly_consistency__{name}"
    made = RunSummary.of(REPORT, RUN, when.isoformat(), kind, dag_id)
    through = {"shop.orders": (when - timedelta(minutes=4)).isoformat()} if verdict == "MATCH" else {}
    folder: dict[str, Any] = {
        "run_id": f"{kind}__{minutes}",
        "folder": "manual__2026-11-23T02_14_07_00_00",
        "seconds": 251.0,
    }
    return replace(made, verdict=Verdict(verdict), differs=differs, verified_through=through, **folder)


def the_report() -> RecoveryReport:
    """A recovery that ended in MATCH, step by step."""
    begun = datetime(2026, 11, 23, 2, 14, 9, tzinfo=UTC)
    lasted = {
        "open_recovery": 0.3,
        "stop_connector": 0.5,
        "fence_and_watermark": 0.6,
        "recover": 18.6,
        "reset_offset": 1.0,
    }
    lasted |= {"resume_connector": 3.2, "verify": 62.7, "publish": 0.4, "close": 0.4}
    steps, at = [], begun
    for name, seconds in lasted.items():
        steps.append(StepReport(name, seconds, "done", at.isoformat()))
        at += timedelta(seconds=seconds)
    tables = (
        replace(TABLE, leaf_map="=" * 30 + "~" + "=" * 15),
        replace(TABLE, table="shop.customers", source_rows=20_727, sink_rows=20_727, leaf_map="=" * 46),
    )
    who: dict[str, Any] = {"started_by": "ann", "approved": "by ann", "note": "paged at night"}
    return replace(
        REPORT, run_id=RUN, tables=tables, steps=tuple(steps), began=begun.isoformat(), ended=at.isoformat(), **who
    )
