"""The built site in a real headless Chromium: the words of an error lead to first aid, and no page is wider than its window.

`make site-search`; the site is built by mkdocs first, so its packages have to be there (`make docs`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver

from stack.browser import chromium
from stack.errors import UnavailableError
from stack.process import wait_until
from stack.prose import user_pages
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FIRST_AID = "connector-failed.html"
NOT_FOR_USERS = ("adr/", "evidence/", "project/", "what-can-go-wrong", "measured-facts")
# what people paste, and what they type
ASKED = (
    "1236",
    "MySQL 1236",
    "error 1236",
    "Could not find first log file name in binary log index file Error code: 1236; SQLSTATE: HY000.",
    "no longer available on the server",
    (
        "The connector is trying to read binlog starting at SourceInfo [currentGtid=null, currentBinlogFilename=mysql-bin.000003], "
        "but this is no longer available on the server. Reconfigure the connector to use a snapshot when needed."
    ),
    "missing slot",
    "missing replication slot",
    'ERROR: replication slot "debezium" does not exist',
    "errno = 1236, sqlstate = HY000 errmsg = Slave has more GTIDs than the master has, using the master's SERVER_UUID.",
    "OutOfSync GTID",
    (
        "The connector is trying to read binlog starting at Struct{version=1.9.8.Final,connector=mysql,name=mysql_binlog_source,"
        "ts_ms=0,db=,server_id=0,file=mysql-bin.000004,pos=198,row=0}, but this is no longer available on the server"
    ),
)
OF_FLINK = ASKED[-1]


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing about each request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
        """See the class."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    _build(folder)
    serve = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(30)


def _build(folder: Path) -> None:
    beside = Path(sys.executable).with_name("mkdocs")
    mkdocs = str(beside) if beside.exists() else shutil.which("mkdocs")
    if mkdocs is None:
        raise UnavailableError("no mkdocs found: `make docs` installs it")
    command = [mkdocs, "build", "--strict", "--clean", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr[-4000:]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    with chromium(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


def hits(browser: WebDriver, site: str, query: str) -> list[str]:
    """Where the results lead, best first, as paths of the site."""
    # away from the page of the last question first: its results would count
    browser.get("about:blank")
    browser.get(f"{site}/index.html?q={quote(query)}")
    found = "return [...document.querySelectorAll('#mkdocs-search-results h3 a')].map(a => a.pathname + a.hash)"
    answered = wait_until(
        lambda: (
            browser.execute_script(
                "return document.querySelector('#mkdocs-search-results').textContent.trim().length > 0"
            )
            or None
        ),
        timeout=10,
        what=f"an answer to {query!r}",
    )
    assert answered
    return [str(one).lstrip("/") for one in browser.execute_script(found)]


@pytest.mark.parametrize("query", ASKED, ids=[query[:40] for query in ASKED])
def test_the_words_of_an_error_lead_to_first_aid_first(browser: WebDriver, site: str, query: str) -> None:
    found = hits(browser, site, query)
    assert found
    assert found[0].startswith(FIRST_AID), found[:5]
    assert [one for one in found if one.startswith(NOT_FOR_USERS)] == []


def test_a_click_on_the_first_result_shows_what_not_to_do_and_the_row(browser: WebDriver, site: str) -> None:
    hits(browser, site, OF_FLINK)
    browser.execute_script("document.querySelector('#mkdocs-search-results h3 a').click()")
    text = wait_until(
        lambda: (
            browser.execute_script("return document.title.startsWith('First aid') && document.body.innerText") or None
        ),
        timeout=10,
        what="the page of first aid",
    )
    assert "trying to read binlog starting at Struct{version=1.9.8.Final" in text
    assert "Don’t restart" in text or "Don't restart" in text


@pytest.mark.parametrize("width", [1280, 400])
def test_no_page_scrolls_sideways(browser: WebDriver, site: str, width: int) -> None:
    """A column of first aid's table would be out of sight."""
    view = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in user_pages()]
    assert len(pages) > 20
    try:
        wide = [str(page) for page in pages if not fits(browser, f"{site}/{page}")]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide == []


def fits(browser: WebDriver, address: str) -> bool:
    browser.get(address)
    return bool(
        browser.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    )
