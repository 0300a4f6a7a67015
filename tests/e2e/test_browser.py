"""The whole way of an engineer who is paged, in a real browser: red, trigger, approve, follow, report, MATCH.

`make browser` runs it; its screenshots are in build/browser. Those of the documentation are made by tests/pictures.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from airflow_cdc.reports.store import ReportStore
from demo.world import PIPELINE
from stack.browser import chromium
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.gap import make_gap
from tests.e2e.conftest import FAR, RUN_SECONDS, Shop, parked
from tests.e2e.test_night import equal, spoil

IMAGES = Path(__file__).parents[2] / "build" / "browser"
SECONDS = 90.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class Person:
    """Somebody at the browser, who sees what is shown and waits until it is there."""

    def __init__(self, browser: WebDriver, url: str) -> None:
        self.browser = browser
        self.url = url

    def open(self, path: str) -> None:
        self.browser.get(self.url + path)

    def see(self, xpath: str, *, seconds: float = SECONDS) -> WebElement:
        """The first element that is displayed. A page that is being drawn anew is looked at again."""

        def displayed() -> WebElement | None:
            try:
                return next((one for one in self.browser.find_elements(By.XPATH, xpath) if one.is_displayed()), None)
            except WebDriverException:
                return None

        try:
            return wait_until(displayed, timeout=seconds, what=f"{xpath} on {self.browser.current_url}")
        except Exception:
            self.shoot("failed", folder=Path("build"))
            raise

    def click(self, xpath: str) -> None:
        """Click once it takes a click: what is still moving refuses it."""

        def clicked() -> bool | None:
            try:
                self.see(xpath).click()
            except WebDriverException:
                return None
            return True

        wait_until(clicked, timeout=SECONDS, what=f"a click on {xpath}")

    def write(self, xpath: str, text: str) -> None:
        field = self.see(xpath)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def shoot(self, name: str, folder: Path = IMAGES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.browser.save_screenshot(str(folder / f"{name}.png"))


@pytest.fixture
def person(shop: Shop) -> Iterator[Person]:
    with chromium(shop.world.stack.logs) as browser:
        yield Person(browser, shop.server.url)


def says(text: str, tag: str = "*") -> str:
    return f"//{tag}[normalize-space(.)={text!r}]"


def test_from_three_red_pages_to_the_match(shop: Shop, person: Person) -> None:
    """Three problems one after the other; each time the page's first button leads to the recovery that ends in MATCH."""
    always_ask(shop)
    loses_its_position(shop)
    person.open("/cdc/")
    person.see(says("401", "h1"))  # not signed in: the page says so, and leads to the sign-in and back
    sign_in(shop, person)
    sees_what_is_broken(person)
    acknowledges(person)
    run_id = presses(shop, person, "Recover…", "cdc_recovery", "form")
    approves(
        shop,
        person,
        run_id,
        "cdc_recovery",
        "Transactions that the connector has not read were purged",
        picture="approval",
    )
    follows(shop, person, run_id)
    reads_the_report(shop, person, "report")

    loses_its_offset(shop)
    sees_red(person, "OFFSET_MISSING", "offset-missing")
    run_id = presses(shop, person, "Recover…", "cdc_recovery")
    approves(shop, person, run_id, "cdc_recovery", "OFFSET_MISSING")
    assert shop.client.wait_run("cdc_recovery", run_id, timeout=RUN_SECONDS) == "success"
    reads_the_report(shop, person)

    rows_become_wrong(shop)
    sees_red(person, "SINK_DIFFERS", "rows-differ")
    run_id = presses(shop, person, "Repair the rows…", "cdc_repair", "form-repair")
    approves(shop, person, run_id, "cdc_repair", "different: 3|x.3")
    assert shop.client.wait_run("cdc_repair", run_id, timeout=RUN_SECONDS) == "success"
    # the rows are right again, and whoever wrote them may write again: that ends with a recovery
    reads_the_report(shop, person, then="SINK_WRITTEN_BY_OTHERS")
    unreachable(shop, person)


def loses_its_position(shop: Shop) -> None:
    """GTID_PURGED, after an hour of looks that saw it come."""
    connectors.stop(shop.worker, "shop")
    observed(shop)
    make_gap(shop.world.mysql.connect())
    assert "no longer available" in connectors.failure(shop.worker, "shop")
    observed(shop)


def loses_its_offset(shop: Shop) -> None:
    """OFFSET_MISSING: somebody deleted the connector's offsets."""
    connectors.stop(shop.worker, "shop")
    shop.worker.call("DELETE", "/connectors/shop/offsets")
    observed(shop)


def rows_become_wrong(shop: Shop) -> None:
    """SINK_DIFFERS: a row of main was overwritten, and a check found it."""
    assert spoil(shop, "customers", equal("code", "x.3"), name="never written") == 1
    run_id = shop.trigger("cdc_repair", pipeline=PIPELINE, dry_run=True)
    assert shop.client.wait_run("cdc_repair", run_id, timeout=RUN_SECONDS) == "success"
    observed(shop)


def sees_what_is_broken(person: Person) -> None:
    sees_red(person, "GTID_PURGED", "overview-broken", opens=False)
    person.click(says(PIPELINE, "a"))
    person.see("//h1[contains(., 'GTID_PURGED')]")
    person.see("//figure//*[name()='svg']")
    person.shoot("pipeline-broken")


def sees_red(person: Person, code: str, picture: str, *, opens: bool = True) -> None:
    """The overview names the problem in red, and the pipeline's page says what to press."""
    person.open("/cdc/")
    badge = person.see(f"//tr//span[normalize-space(.)={code!r}]")
    assert badge.value_of_css_property("background-color") == "rgba(179, 38, 30, 1)"
    if opens:
        person.click(says(PIPELINE, "a"))
        person.see(f"//h1[contains(., {code!r})]")
    person.shoot(picture)


def acknowledges(person: Person) -> None:
    """With a reason and an end; afterwards the page says who, and takes it back."""
    person.click("//a[contains(., 'Acknowledge or mute')]")
    person.write("//input[@name='reason']", "The disk of db1 was full; I am on it")
    person.shoot("form-acknowledge")
    person.click("//button[normalize-space(.)='Acknowledge or mute']")
    person.see("//form[contains(., 'Acknowledged by')]")
    person.shoot("pipeline-acknowledged")
    person.click("//button[normalize-space(.)='Notify again']")
    person.see("//a[contains(., 'Acknowledge or mute')]")


def presses(shop: Shop, person: Person, label: str, dag_id: str, picture: str = "") -> str:
    """The page's first button, and its form as it comes; the id of the run that it started."""
    person.open(f"/cdc/pipelines/{PIPELINE}")
    buttons = [one.text for one in person.browser.find_elements(By.CSS_SELECTOR, "p.actions a.button")]
    assert buttons[0] == label
    person.click(f"//a[contains(@class, 'button') and normalize-space(.)={label!r}]")
    person.write("//input[@name='note']", "paged at night")
    if picture:
        person.shoot(picture)
    before = {run["dag_run_id"] for run in shop.client.runs(dag_id)}
    person.click("//button[normalize-space(.)='Start']")

    def started() -> str | None:
        return next((r["dag_run_id"] for r in shop.client.runs(dag_id) if r["dag_run_id"] not in before), None)

    return wait_until(started, timeout=SECONDS, what="the run that the form started")


def approves(shop: Shop, person: Person, run_id: str, dag_id: str, says_that: str, *, picture: str = "") -> None:
    """By the button that the pipeline's page has while its run asks."""
    shop.client.wait_task(dag_id, run_id, "approve", ("awaiting_input", "deferred"), timeout=RUN_SECONDS)
    parked(shop.client)
    person.open(f"/cdc/pipelines/{PIPELINE}")
    person.see("//p[contains(., 'waits for an answer')]")
    if picture:
        person.shoot("pipeline-asks")
    person.click("//a[contains(@class, 'button') and contains(., 'Approve or reject')]")
    person.see(f"//*[contains(., {says_that!r})]")
    if picture:
        person.shoot(picture)
    person.click("//button[normalize-space(.)='Approve']")


def follows(shop: Shop, person: Person, run_id: str) -> None:
    shop.client.wait_task("cdc_recovery", run_id, "recover", ("running", "success"), timeout=300)
    person.open(f"/cdc/pipelines/{PIPELINE}")
    person.see("//p[contains(., 'A run is in progress')]//strong")
    person.shoot("pipeline-at-work")
    person.click("//a[contains(@class, 'button') and contains(., 'Follow')]")
    person.see("//*[contains(., 'fence_and_watermark')]")
    person.shoot("following")
    assert shop.client.wait_run("cdc_recovery", run_id, timeout=RUN_SECONDS) == "success"


def reads_the_report(shop: Shop, person: Person, picture: str = "", *, then: str = "HEALTHY") -> None:
    """The newest run's report says MATCH; whoever looks again sees what is left of the problem."""
    observed(shop)
    person.open(f"/cdc/pipelines/{PIPELINE}")
    person.see(f"//h1//span[normalize-space(.)={then!r}]")
    person.click("//table//tr[.//span[normalize-space(.)='MATCH']]//a[normalize-space(.)='report']")
    verdict = person.see("//h1/span[normalize-space(.)='MATCH']")
    assert "match" in str(verdict.get_attribute("class"))
    person.see("//dt[normalize-space(.)='Approved']/following-sibling::dd[1][contains(., 'by ')]")
    if picture:
        person.shoot(picture)
        person.open("/cdc/")
        person.see(says("HEALTHY", "span"))
        person.shoot("overview-healthy")


def unreachable(shop: Shop, person: Person) -> None:
    """A pipeline whose source does not answer: the overview says which server."""
    observed(shop, FAR)
    person.open("/cdc/?q=far")
    person.see("//span[contains(., 'source could not be read')]")
    person.shoot("unreachable")


def test_light_and_dark_by_airflows_switch(shop: Shop, person: Person) -> None:
    """What Airflow's switch keeps counts, whatever the system says; nothing scrolls sideways on a laptop."""
    person.open("/cdc/")
    sign_in(shop, person)
    person.see(says("CDC pipelines", "h1"))
    seen = {}
    for theme in ("light", "dark"):
        person.browser.execute_script("localStorage.setItem('theme', arguments[0])", theme)
        person.open("/cdc/")
        person.see(says("CDC pipelines", "h1"))
        seen[theme] = person.browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
        assert person.browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    person.shoot("overview-dark")
    assert seen == {"light": "rgba(255, 255, 255, 1)", "dark": "rgba(18, 22, 28, 1)"}


def test_two_hundred_pipelines(shop: Shop, person: Person) -> None:
    """Filtered, paged and readable at 1,440 px. The observations are copies of real ones, with other names and ages."""
    many(shop)
    person.open("/cdc/")
    sign_in(shop, person)
    person.see("//span[contains(., 'pipelines, page 1 of 5')]")
    assert person.browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    person.shoot("overview-200")
    assert len(person.browser.find_elements(By.CSS_SELECTOR, "table.overview tbody tr")) == 50
    person.click("//p[@class='pages']/a[normalize-space(.)='5']")
    person.see("//span[contains(., 'page 5 of 5')]")
    person.open("/cdc/")
    person.write("//input[@name='q']", "team-3")
    person.click("//select[@name='tag']/option[normalize-space(.)='gold']")
    person.click("//button[normalize-space(.)='Search']")
    person.see("//span[normalize-space(.)='10 pipelines']")
    person.shoot("overview-filtered")


def many(shop: Shop) -> None:
    """Two hundred more pipelines in the registry, each with the stored observation of one of the real ones."""
    path = shop.world.folder / "pipelines.yaml"
    declared = yaml.safe_load(path.read_text())
    model = declared["pipelines"][PIPELINE]
    store = ReportStore(str(shop.world.folder / "reports"))
    healthy, broken = store.observation(PIPELINE), store.observation(FAR)
    assert healthy
    now = datetime.now(UTC)
    for n in range(200):
        name = f"{WORDS[n % len(WORDS)]}_{n:03}"
        part = {key: model[key] for key in ("source", "connector", "transport", "sink", "spark")}
        part["connector"] = {**part["connector"], "name": name}
        part["sink"] = {**part["sink"], "namespace": name}
        owned = {"owner": f"team-{n % 10}", "tags": ["gold"] if n % 4 < 2 else ["pii", "eu"]}
        declared["pipelines"][name] = {**part, **owned}
        kept = broken if n % 37 == 3 and broken else healthy
        seen = replace(kept, pipeline=name, taken_at=(now - timedelta(seconds=20 + 7 * n % 900)).isoformat())
        if n % 41 == 5:
            lost = replace(seen.diagnosis, code="GTID_PURGED", description=LOST, strategies=("full_snapshot",))
            seen = replace(seen, diagnosis=lost)
        store.keep_observation(seen)
    path.write_text(yaml.safe_dump(declared, sort_keys=False))


LOST = "Transactions that the connector has not read were purged from the server."
WORDS = ("billing", "crm", "orders", "stock", "ledger", "fleet", "claims", "search")


def sign_in(shop: Shop, person: Person) -> None:
    person.click(says("Sign in", "a"))
    person.write("//input[@name='username']", shop.server.user)
    person.write("//input[@name='password']", shop.server.password)
    person.click("//button[@type='submit']")


def always_ask(shop: Shop) -> None:
    path = shop.world.folder / "pipelines.yaml"
    declared = yaml.safe_load(path.read_text())
    declared["pipelines"][PIPELINE]["policy"]["approval"] = "always"
    path.write_text(yaml.safe_dump(declared, sort_keys=False))


def observed(shop: Shop, pipeline: str = PIPELINE) -> None:
    """`airflow cdc diagnose`, as a watch would run it: the page itself asks no source."""
    argv = [sys.executable, "-m", "airflow", "cdc", "diagnose", pipeline]
    subprocess.run(argv, env=shop.server.environment, capture_output=True, timeout=120, check=False)
