"""A headless Chromium for tests of pages, driven by Selenium; skips, with the reason, where one of them is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["browser", "console", "dark", "size"]

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def browser(profile: Path) -> Iterator[Any]:
    """A driver with a fresh profile; closed at the end."""
    pytest.importorskip("selenium", reason="pages are tested in a browser that Selenium drives (extra 'test')")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("pages are tested in Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options, Service(driver))
    try:
        made.set_page_load_timeout(120)
        made.set_script_timeout(120)
        yield made
    finally:
        made.quit()


def console(driver: Any) -> list[str]:
    """What the console was told since the last time."""
    return [entry["message"] for entry in driver.get_log("browser")]


def size(driver: Any, width: int, height: int) -> None:
    """The size of the window's inside, in pixels."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def dark(driver: Any, wanted: bool) -> None:
    """What the system wishes."""
    feature = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
