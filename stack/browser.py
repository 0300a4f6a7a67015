"""A headless Chromium, driven through its own driver: both of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stack.errors import UnavailableError

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

WIDTH, HEIGHT = 1440, 900
INSTALL = "`apt-get install chromium chromium-driver` (Debian), or `make browser-packages` as root"


def program(name: str) -> str:
    """The path of a program. Raises UnavailableError with what to install."""
    path = shutil.which(name)
    if path is None:
        raise UnavailableError(f"no {name} found: {INSTALL}")
    return path


@contextmanager
def chromium(logs: Path, *, dark: bool = False) -> Iterator[WebDriver]:
    """A browser window of a laptop's size; it is gone with the block."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = program("chromium")
    # no sandbox: it refuses to run as root, which is what a container is
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", f"window-size={WIDTH},{HEIGHT}"):
        options.add_argument(f"--{flag}")
    if dark:
        options.add_argument("--force-dark-mode")
    service = ChromeService(program("chromedriver"), log_output=str(logs / "chromedriver.log"))
    browser = Chrome(options=options, service=service)
    try:
        yield browser
    finally:
        browser.quit()
