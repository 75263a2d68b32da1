"""Chromium, driven by Selenium, without a screen and without asking anybody for anything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Its driver; skips where it is not installed.

    Args:
        profile: a directory of its own.
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("Chromium and its driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()
