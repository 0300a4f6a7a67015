"""The whole way of an engineer who is paged, in a real browser: red, trigger, approve, follow, report, MATCH.

`make browser` runs it; the screenshots in docs/images are its.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from demo.world import PIPELINE
from stack.browser import chromium
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.gap import make_gap
from tests.e2e.conftest import RUN_SECONDS, Shop, parked

IMAGES = Path(__file__).parents[2] / "docs" / "images"
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


def test_from_the_red_pipeline_to_the_match(shop: Shop, person: Person) -> None:
    always_ask(shop)
    connectors.stop(shop.worker, "shop")
    make_gap(shop.world.mysql.connect())
    assert "no longer available" in connectors.failure(shop.worker, "shop")
    observed(shop)

    person.open("/cdc/")
    person.see(says("401", "h1"))  # not signed in: the page says so, and leads to the sign-in and back
    sign_in(shop, person)
    sees_what_is_broken(person)
    run_id = starts_the_recovery(shop, person)
    approves(shop, person, run_id)
    follows(shop, person, run_id)
    reads_the_report(shop, person)


def sees_what_is_broken(person: Person) -> None:
    badge = person.see("//tr//span[normalize-space(.)='GTID_PURGED']")
    assert badge.value_of_css_property("background-color") == "rgba(179, 38, 30, 1)"
    person.shoot("overview-broken")
    person.click(says(PIPELINE, "a"))
    person.see("//h1[contains(., 'GTID_PURGED')]")
    person.shoot("pipeline-broken")


def starts_the_recovery(shop: Shop, person: Person) -> str:
    """By the form of cdc_recovery; the id of the run."""
    person.click("//a[@class='button' and contains(., 'Recover…')]")
    person.click("//button[contains(., 'Trigger')]")
    person.see("//*[contains(., 'A name from pipelines.yaml')]")
    person.write("//*[@name='element_pipeline']", PIPELINE)
    person.see("//*[@name='element_pipeline']").send_keys(Keys.TAB)
    person.shoot("form")
    before = {run["dag_run_id"] for run in shop.client.runs("cdc_recovery")}
    person.click("//*[@role='dialog']//button[contains(., 'Trigger')]")

    def started() -> str | None:
        return next((r["dag_run_id"] for r in shop.client.runs("cdc_recovery") if r["dag_run_id"] not in before), None)

    return wait_until(started, timeout=SECONDS, what="the run that the form started")


def approves(shop: Shop, person: Person, run_id: str) -> None:
    shop.client.wait_task("cdc_recovery", run_id, "approve", ("awaiting_input", "deferred"), timeout=180)
    parked(shop)
    person.open(f"/dags/cdc_recovery/runs/{run_id}/tasks/approve/required_actions")
    person.see("//*[contains(., 'Transactions that the connector has not read were purged')]")
    person.shoot("approval")
    person.click("//button[normalize-space(.)='Approve']")


def follows(shop: Shop, person: Person, run_id: str) -> None:
    person.open(f"/dags/cdc_recovery/runs/{run_id}")
    shop.client.wait_task("cdc_recovery", run_id, "recover", ("running", "success"), timeout=300)
    person.see("//*[contains(., 'fence_and_watermark')]")
    person.shoot("following")
    assert shop.client.wait_run("cdc_recovery", run_id, timeout=RUN_SECONDS) == "success"


def reads_the_report(shop: Shop, person: Person) -> None:
    person.open("/cdc/")
    person.see(says("RECOVERED", "span"))
    person.click(f"//tr[.//a[normalize-space(.)={PIPELINE!r}]]//a[.//span[normalize-space(.)='MATCH']]")
    verdict = person.see("//h1/span[normalize-space(.)='MATCH']")
    assert "match" in str(verdict.get_attribute("class"))
    person.see("//h2[contains(., 'Steps')]")
    person.shoot("report")
    observed(shop)
    person.open("/cdc/")
    person.see(says("HEALTHY", "span"))
    person.shoot("overview-healthy")


def test_dark_and_light(shop: Shop) -> None:
    """The page follows the reader's system, and fits a laptop without a bar to scroll sideways."""
    seen = {}
    for dark in (False, True):
        with chromium(shop.world.stack.logs, dark=dark) as browser:
            person = Person(browser, shop.server.url)
            scheme = "dark" if dark else "light"
            browser.execute_cdp_cmd(
                "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            )
            person.open("/cdc/")
            sign_in(shop, person)
            person.see(says("CDC pipelines", "h1"))
            body = browser.find_element(By.TAG_NAME, "body")
            seen[scheme] = body.value_of_css_property("background-color")
            assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
            if dark:
                person.shoot("overview-dark")
    assert seen == {"light": "rgba(255, 255, 255, 1)", "dark": "rgba(18, 22, 28, 1)"}


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


def observed(shop: Shop) -> None:
    """`airflow cdc diagnose`, as a watch would run it: the page itself asks no source."""
    argv = [sys.executable, "-m", "airflow", "cdc", "diagnose", PIPELINE]
    subprocess.run(argv, env=shop.server.environment, capture_output=True, timeout=120, check=False)
