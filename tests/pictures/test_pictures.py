"""`make pictures`: the pictures of the page in docs/images, one per state, by a real Chromium from the real application.

The application is served over HTTP as Airflow mounts it, with its sign-in and its headers; what it reads is stored here as
diagnoses and runs store it. No pipeline runs: the states come side by side in half a minute, and stay current when the page
changes: `made-of.json` beside the pictures says what they were made of, and a unit test compares. Light, dark and narrow ones
of every page, for whoever looks at a change, are in build/pictures. The way through the page on real servers is
tests/e2e/test_browser.py.
"""

from __future__ import annotations

import json
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

from airflow_cdc.core.forecast import PurgeForecast, Retention
from airflow_cdc.core.observation import ControlFacts, Observation, OpenFacts, TaskState, Unknown
from airflow_cdc.core.report import ComparedAt, RecoveryReport, StepReport, Verdict
from airflow_cdc.decisions.diagnosis.strategy import choices
from airflow_cdc.kinds import rules_for
from airflow_cdc.plugin import PREFIX, CdcPlugin, app
from airflow_cdc.plugin.running import RunningRun
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import CHECK, RECOVERY, RunSummary, Sample, Silence, StoredObservation
from stack.browser import chromium
from stack.ports import free_port
from stack.process import wait_until
from tests import pictures
from tests.diagnosing import diagnose
from tests.paths import ROOT
from tests.unit.builders import HEALTHY, PIPELINE, UUID, with_connector, with_source
from tests.unit.conftest import REGISTRY, airflow_db, registry
from tests.unit.core.test_report import REPORT, TABLE
from tests.unit.faults import TRANSIENT

__all__ = ["airflow_db", "registry"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
IMAGES = ROOT / "docs" / "images"
LOOKED_AT = ROOT / "build" / "pictures"
WIDE, NARROW, HIGHEST = 1280, 400, 2400
NOW = datetime.now(UTC)
RUN = "manual__2026-11-23T02:14:07+00:00"
PURGED = with_source(gtid_purged=HEALTHY.source.gtid_executed)  # type: ignore[union-attr]
FAILED = with_connector(tasks=(TaskState(0, "FAILED", TRANSIENT),))
OPENED = replace(HEALTHY, control=ControlFacts(3, recovery=OpenFacts(RUN, NOW.isoformat())))
# of a log kept for seven hours, whose file was closed three hours ago
AT_RISK = with_source(retention=Retention(25_200, now=100_000.0, written_until=89_200.0))
UNREACHABLE = replace(HEALTHY, source=Unknown("cannot connect: timed out (db7.crm:3306)"))
# name → what was observed, who owns it, its tags
PIPELINES: Mapping[str, tuple[Observation, str, tuple[str, ...]]] = {
    "shop": (PURGED, "crm", ("gold",)),
    "billing": (HEALTHY, "money", ("gold", "pii")),
    "stock": (FAILED, "logistics", ()),
    "claims": (UNREACHABLE, "money", ("pii",)),
    "fleet": (with_connector(state="STOPPED", tasks=()), "logistics", ()),
    "search": (OPENED, "web", ()),
    "ledger": (AT_RISK, "money", ("gold",)),
    "orders": (HEALTHY, "web", ("gold",)),
}


@dataclass(frozen=True, slots=True)
class Site:
    """The page under its address, what it reads, and a browser that is signed in."""

    url: str
    store: ReportStore
    registry: Path
    running: dict[str, RunningRun]
    browser: WebDriver

    def look(self, path: str, name: str) -> None:
        """Pictures of a page in build/pictures, each as high as the page, so that nothing is cut. A page that scrolls sideways, on
        a laptop or on a phone, or is an error, is none.
        """
        for theme in ("dark", "light"):
            self._theme(theme)
            for width in (NARROW, WIDE):
                self._show(path, width)
                self.browser.save_screenshot(str(LOOKED_AT / f"{name}-{theme}-{width}.png"))

    def shoot(self, path: str, name: str, *, until: str = "") -> None:
        """The picture of a page for the documentation, which ends before the heading `until`; see `look`."""
        self.look(path, name)
        if until:
            self._resize(WIDE, self._top(until))
        self.browser.save_screenshot(str(IMAGES / f"{name}.png"))

    def _show(self, path: str, width: int) -> None:
        self._resize(width, 300)
        self.browser.get(self.url + PREFIX + path)
        assert self.browser.title not in ("", "401", "403", "404", "500")
        fits = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert self.browser.execute_script(fits), f"{path} scrolls sideways at {width} pixels"
        self._resize(
            width, min(HIGHEST, int(self.browser.execute_script("return document.documentElement.scrollHeight")))
        )

    def _resize(self, width: int, height: int) -> None:
        """What is seen, without a bar to scroll by."""
        view = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)

    def _top(self, heading: str) -> int:
        top = (
            "const found = [...document.querySelectorAll('h2')].find(h => h.textContent.startsWith(arguments[0]));"
            "return found ? Math.floor(found.getBoundingClientRect().top + window.scrollY) - 12 : -1"
        )
        found = int(self.browser.execute_script(top, heading))
        assert found > 0, f"no heading {heading!r}"
        return found

    def _theme(self, name: str) -> None:
        """By what Airflow's switch keeps in the browser."""
        self.browser.execute_script(f"localStorage.setItem('theme', '{name}')")


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
            browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
            browser.get(f"{url}{PREFIX}/")  # a cookie is set for the site that is open
            token = manager.generate_jwt(SimpleAuthManagerUser(username="ann", role="ADMIN"))
            browser.add_cookie({"name": "_token", "value": token})
            yield Site(url, ReportStore(str(registry.parent / "reports")), registry, running, browser)
    finally:
        server.should_exit = True
        thread.join(30)
        airflow_app.purge_cached_app()


def test_pictures(site: Site) -> None:
    for folder in (IMAGES, LOOKED_AT):
        folder.mkdir(parents=True, exist_ok=True)
    fill(site, PIPELINES)
    site.shoot("/", "overview-broken")
    site.shoot("/pipelines/shop", "pipeline-broken", until="Declared")
    site.shoot("/pipelines/shop/recover", "form")
    site.look("/pipelines/shop/silence", "form-acknowledge")
    site.shoot("/pipelines/stock", "pipeline-failed", until="Evidence")
    site.shoot("/pipelines/claims", "pipeline-unreachable", until="Evidence")
    site.shoot("/pipelines/billing", "pipeline-differs", until="Evidence")
    site.look("/pipelines/billing/repair", "form-repair")
    site.shoot("/pipelines/ledger", "pipeline-at-risk", until="Evidence")
    site.shoot(f"/pipelines/shop/runs/{RUN}", "report")
    at_work(site)
    muted(site)
    many(site)
    (IMAGES / "made-of.json").write_text(json.dumps(pictures.made_of(), indent=2) + "\n")


def at_work(site: Site) -> None:
    site.running["shop"] = RunningRun("cdc_recovery", RUN, NOW - timedelta(seconds=95), "verify", "running")
    site.shoot("/pipelines/shop", "pipeline-at-work", until="What to do")
    site.running["shop"] = RunningRun("cdc_recovery", RUN, NOW - timedelta(seconds=20), "approve", "awaiting_input")
    site.shoot("/pipelines/shop", "pipeline-asks", until="What to do")
    site.running.clear()


def muted(site: Site) -> None:
    until, why = (NOW + timedelta(hours=4)).isoformat(), "db1's disk was full; the storage team adds one by 06:00"
    site.store.keep_silences("shop", [Silence("ann", NOW.isoformat(), until, why, "GTID_PURGED")])
    site.shoot("/pipelines/shop", "pipeline-acknowledged", until="What to do")


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
    site.look("/?tag=gold&owner=team-3", "overview-filtered")
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
    left = [max(0.0, 0.93 - 0.031 * h) if lost else 0.80 - 0.01 * h + 0.02 * (h % 3) for h in range(31)]
    samples = tuple(Sample((start - timedelta(hours=30 - h)).isoformat(), share) for h, share in enumerate(left))
    forecast = PurgeForecast(
        14_400.0, in_newest_file=False, basis="closed 3 h ago, kept 7 h, purged at the next rotation"
    )
    return replace(made, pipeline=name, samples=samples, forecast=forecast if name == "ledger" else None)


def ended(name: str, kind: str, *, minutes: int, verdict: str = "MATCH", differs: tuple[str, ...] = ()) -> RunSummary:
    when = NOW - timedelta(minutes=minutes)
    dag_id = "cdc_recovery" if kind == RECOVERY else f"cdc_nightly_consistency__{name}"
    problem = "SINK_DIFFERS" if differs else "HEALTHY"
    report = REPORT if kind == RECOVERY else replace(REPORT, problem=problem, strategy="none")
    made = RunSummary.of(report, RUN, when.isoformat(), kind, dag_id)
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
    compared_at = ComparedAt(5_482_093_771_204_118, f"{UUID}:1-104")
    orders = replace(TABLE, leaf_map="=" * 30 + "~" + "=" * 15, leaves_rechecked=1, compared_at=compared_at)
    customers: dict[str, Any] = {
        "table": "shop.customers",
        "source_rows": 20_727,
        "sink_rows": 20_727,
        "columns_not_compared": (),
    }
    tables = (orders, replace(orders, leaf_map="=" * 12, leaves=12, leaves_rechecked=0, **customers))
    who: dict[str, Any] = {"started_by": "ann", "approved": "by ann", "note": "paged at night"}
    evidence = {"missing transactions": f"{UUID}:81-97", "oldest log file": "mysql-bin.000010"}
    return replace(
        REPORT,
        run_id=RUN,
        evidence=evidence,
        tables=tables,
        steps=tuple(steps),
        began=begun.isoformat(),
        ended=at.isoformat(),
        **who,
    )
