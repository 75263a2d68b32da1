"""The site of `make docs`: no dead link, nothing from elsewhere, readable in a browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import chromium
from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.thorough
pytest.importorskip("material", reason="the group docs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    mkdocs = (sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict")
    words = [*mkdocs, "--site-dir", str(place)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return place


class Page(HTMLParser):
    """What a page points to, what can be pointed to in it, and what it loads by itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors = {"", "__skip", "__search"}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)
                if tag != "a":
                    self.loaded.append(value)


def test_no_link_is_dead(site: Path) -> None:
    pages = {path: Page(path) for path in sorted(site.glob("*.html")) if path.name != "404.html"}
    assert len(pages) == len(list(DOCS.glob("*.md")))
    checked = 0
    for path, page in pages.items():
        assert not [link for link in page.loaded if urlsplit(link).netloc], path.name
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name}: no {link}"
            if target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: no {link}"
            checked += 1
    assert checked > 1000


def test_every_page_can_be_searched_for(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_bytes())["docs"]
    places = {entry["location"].partition("#")[0] for entry in found}
    assert {f"{page.stem}.html" for page in DOCS.glob("*.md")} == places


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "reliability", "performance"])
def test_a_browser_shows_it(site: Path, browser: Any, name: str, theme: str, width: int) -> None:
    axe = pytest.importorskip("axe_selenium_python", reason="axe is not installed").Axe(browser)
    feature = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get((site / f"{name}.html").as_uri())
    # Colours that are on their way from one scheme to the other are nobody's to read.
    browser.execute_script("document.getAnimations().forEach((animation) => animation.finish())")
    scheme = browser.execute_script("return document.body.dataset.mdColorScheme")
    assert scheme == {"light": "default", "dark": "slate"}[theme]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    if "DATAPREP_SCREENSHOTS" in os.environ:
        place = Path(os.environ["DATAPREP_SCREENSHOTS"]) / f"site-{name}-{theme}-{width}.png"
        browser.save_screenshot(str(place))
    axe.inject()
    found = axe.run()["violations"]
    assert [(entry["id"], [node["html"] for node in entry["nodes"][:3]]) for entry in found] == []


def test_the_search_finds_without_a_network(site: Path, browser: Any) -> None:
    metrics = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Network.enable", {})
    assert "unpkg" not in (site / "404.html").read_text("utf-8")
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*"]})
    browser.get((site / "index.html").as_uri())
    browser.find_element("css selector", "input.md-search__input").send_keys("recordio")
    for _ in range(100):
        results = browser.find_elements("css selector", "a.md-search-result__link")
        if results:
            break
        time.sleep(0.1)
    assert any("formats.html" in result.get_attribute("href") for result in results)
