"""`dataprep report` writes one page that any browser shows, and that needs nothing else."""

import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.review.loaders import loaders
from tests.conftest import FORMATS, Cli, Made, Shelf
from tests.review.conftest import HOSTILE, Planted

pytest.importorskip("matplotlib", reason="the extra report is not installed")
pytest.importorskip("jinja2", reason="the extra report is not installed")


@pytest.fixture(scope="session")
def page(planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataprep.report(planted.out, to=tmp_path_factory.mktemp("report") / "report.html")


class Tags(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: Path) -> Tags:
    tags = Tags()
    tags.feed(page.read_text())
    return tags


def test_it_needs_no_network_and_no_script(page: Path) -> None:
    tags = parsed(page)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in tags.tags}
    for _, attributes in tags.tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/jpeg"))
        assert not [name for name in attributes if name.startswith("on")]
    identifiers = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert page.stat().st_size < 5_000_000


def test_hostile_names_are_only_text(page: Path) -> None:
    assert HOSTILE not in page.read_text()
    assert HOSTILE in parsed(page).text


def test_what_was_planted_is_named_and_pictured(page: Path) -> None:
    tags = parsed(page)
    pictured = [attributes["alt"] or "" for tag, attributes in tags.tags if tag == "img"]
    for words in (
        "validation/c0/leak.jpg = train/c0/00.jpg",
        "validation/c0/near.jpg ~ train/c0/03.jpg",
        "train/c1/01.jpg = train/c2/conflict.jpg",
        "truncated JPEG",
    ):
        assert words in tags.text
    for name in ("validation/c0/leak.jpg", "train/c0/03.jpg", "train/c1/blank.jpg"):
        assert any(caption.startswith(name) for caption in pictured)
    assert "4 errors and" in tags.text


def test_the_same_set_gives_the_same_bytes(page: Path, planted: Planted, tmp_path: Path) -> None:
    again = dataprep.report(planted.out, to=tmp_path / "again.html")
    assert again.read_bytes() == page.read_bytes()
    other = dataprep.report(planted.out, to=tmp_path / "other.html", seed=1)
    assert other.read_bytes() != page.read_bytes()


def test_the_command_says_where_it_is(tiny: Made, cli: Cli, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    result = cli("report", out, "--no_near")
    assert (result.code, result.out) == (0, f"{out / 'report.html'}\n")
    text = parsed(out / "report.html").text
    assert "look-alikes were not looked for" in text
    assert cli("verify", out).code == 0  # it is no part of the data set


@pytest.mark.parametrize("name", ["tfrecord", "recordio", "webdataset", "hdf5"])
def test_lines_that_load_the_set_name_files_that_are_there(shelf: Shelf, name: str) -> None:
    out = shelf(name).out
    found = loaders(json.loads((out / "manifest.json").read_text()))
    assert found[0][0] == "PyTorch"
    for _, lines in found:
        compile(lines, "<lines>", "exec")
        for pattern in re.findall(r'"OUT/([^"]+)"', lines):
            assert list(out.glob(pattern)), pattern
    assert name not in FORMATS or FORMATS[name][1] == name


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("Chromium and its driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.mark.parametrize("width", [360, 768, 1920])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_real_browser_shows_it(
    page: Path, browser: Any, tmp_path: Path, width: int, theme: str
) -> None:
    feature = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get_log("performance")  # of the page that a new browser shows
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    requests = [
        json.loads(entry["message"])["message"]["params"].get("request", {}).get("url", "")
        for entry in browser.get_log("performance")
        if "Network.requestWillBeSent" in entry["message"]
    ]
    assert [url for url in requests if url and not url.startswith(("file:", "data:"))] == []
    broken = "return [...document.images].filter(image => !image.naturalWidth).length"
    assert browser.execute_script(broken) == 0
    assert browser.get_screenshot_as_png().startswith(b"\x89PNG")


def test_it_is_accessible(page: Path, browser: Any) -> None:
    axe = pytest.importorskip("axe_selenium_python", reason="axe is not installed").Axe(browser)
    for theme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": theme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        # The page forbids scripts: axe is one, so it is looked at without that rule.
        browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
        browser.get(page.as_uri())
        axe.inject()
        found = axe.run()["violations"]
        assert [
            (entry["id"], [node["html"] for node in entry["nodes"][:3]]) for entry in found
        ] == []
