"""`dataprep report` writes one page that any browser shows, and that needs nothing else."""

import base64
import json
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dataprep
from dataprep.review.report import loaders
from dataprep.sealed.set import SealedSet
from dataprep.tables.records import RecordsTable
from tests.browser import chromium
from tests.conftest import FORMATS, Cli, Made, Shelf
from tests.review.conftest import HOSTILE, Planted, jpeg, photo

pytest.importorskip("matplotlib", reason="the extra report is not installed")
pytest.importorskip("jinja2", reason="the extra report is not installed")


from dataprep.review.pictures import Album


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


def test_it_needs_no_network_and_allows_one_script(page: Path) -> None:
    tags = parsed(page)
    assert not {"link", "iframe", "object"} & {tag for tag, _ in tags.tags}
    assert [attributes for tag, attributes in tags.tags if tag == "script"] == [{}]
    for _, attributes in tags.tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/jpeg"))
        assert not [name for name in attributes if name.startswith("on")]
    identifiers = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for _, attributes in tags.tags:
        if (attributes.get("href") or "#svg").startswith("#") and "href" in attributes:
            assert (attributes["href"] or "")[1:] in identifiers
    assert page.stat().st_size < 5_000_000


def test_hostile_names_are_only_text(page: Path) -> None:
    assert HOSTILE not in page.read_text()
    assert HOSTILE in parsed(page).text


def test_what_cannot_be_read_has_a_caption(planted: Planted) -> None:
    sealed = SealedSet.read(planted.out)
    images = [("train", "c0/00.jpg"), ("train", "c0/03.jpg"), ("train", "no such image")]
    rows = {images[0]: 0, images[1]: 1}  # of which the keys are others
    album = Album(sealed, rows)
    assert [picture.address for picture in album.pictures(images)] == [None] * 3
    with RecordsTable(planted.out, sealed.manifest.records_table) as table:
        keys = [key for (key,) in table.rows(0, 40, ["key"])]
    rows = {image: keys.index(image[1]) for image in images[:2]}
    album = Album(sealed, rows)
    both = album.pictures(images)
    assert all(picture.address for picture in both[:2])
    assert [picture.caption for picture in both] == [
        *("train/c0/00.jpg: c0", "train/c0/03.jpg: c0", "train/no such image")
    ]


def test_a_rejected_image_is_named_without_a_picture(page: Path) -> None:
    tags = parsed(page)
    assert "train/c1/bad.jpg" not in [attributes.get("alt") for _, attributes in tags.tags]
    assert "train/c1/bad.jpg" in tags.text


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


def test_the_same_set_gives_the_same_bytes(planted: Planted, page: Path, tmp_path: Path) -> None:
    copy = tmp_path / planted.out.name  # its name is the heading, its path is nowhere
    shutil.copytree(planted.out, copy)
    assert dataprep.report(copy).read_bytes() == page.read_bytes()
    assert str(planted.out) not in page.read_text()
    other = dataprep.report(planted.out, to=tmp_path / "other.html", seed=1)
    assert other.read_bytes() != page.read_bytes()


def test_the_command_says_where_it_is(tiny: Made, cli: Cli, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    result = cli("report", out, "--no_near")
    assert (result.code, result.out) == (0, f"{out / 'report.html'}\n")
    text = parsed(out / "report.html").text
    assert "look-alikes were not looked for" in text
    assert cli("verify", out).code == 0  # it is no part of the data set


@pytest.mark.parametrize("layout", ["split", "flat"])
@pytest.mark.parametrize("name", FORMATS)
def test_lines_that_load_the_set_name_files_that_are_there(
    shelf: Shelf, name: str, layout: str
) -> None:
    """test_loaders.py runs them."""
    out = shelf(name, "--layout", layout).out
    found = list(loaders(SealedSet.read(out).manifest))
    assert found[0][0] == "PyTorch"
    for _, lines in found:
        for pattern in re.findall(r'"OUT/([^"]+)"', lines):
            assert list(out.glob(pattern)), pattern


def test_a_split_without_labels_has_a_page(cli: Cli, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    for number in range(4):
        (raw / f"{number}.jpg").write_bytes(jpeg(photo(number)))
    (raw / "list.csv").write_text(
        "path,label,split\n0.jpg,,train\n1.jpg,,train\n2.jpg,odd,val\n3.jpg,odd,val\n"
    )
    words = ("--listing", "list.csv", "--label_separator", "|")
    assert cli("folder", "--raw", raw, "--out", out, *words).code == 0
    assert cli("report", out).code == 0
    assert "only validation" in parsed(out / "report.html").text.replace("is only in", "only")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
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
    size = {"x": 0, "y": 0, "width": width, "height": 4000, "scale": 1}
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": size}
    )
    directory = Path(os.environ.get("DATAPREP_SCREENSHOTS") or tmp_path)
    directory.mkdir(parents=True, exist_ok=True)
    picture = directory / f"report-{width}-{theme}.png"
    picture.write_bytes(base64.b64decode(shot["data"]))
    with Image.open(picture) as image:
        assert image.width == width
        corner = image.convert("L").getpixel((1, 1))
    assert isinstance(corner, int)
    assert corner == 255 if theme == "light" else corner < 40


def test_the_table_of_classes_is_searched(page: Path, browser: Any) -> None:
    browser.get(page.as_uri())
    field = browser.find_element("id", "search")
    shown = "return [...document.getElementById('all').rows].filter(row => !row.hidden).length"
    assert field.is_displayed()
    assert browser.execute_script(shown) == 4
    field.send_keys("C1")
    assert browser.execute_script(shown) == 1
    assert browser.find_element("id", "shown").text == "1 shown"


def test_the_keyboard_reaches_everything(page: Path, browser: Any) -> None:
    browser.get(page.as_uri())
    asked = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())"
    wanted = browser.execute_script(asked, "a[href], summary, input, [tabindex]")
    reached = []
    for _ in wanted:
        browser.switch_to.active_element.send_keys("\ue004")  # tab
        reached.append(browser.switch_to.active_element)
    assert reached == wanted
    style = "return getComputedStyle(document.activeElement).outlineStyle"
    assert browser.execute_script(style) == "solid"


def test_it_can_be_printed(page: Path, browser: Any) -> None:
    browser.get(page.as_uri())
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type */Page\b", printed)) >= 3


def test_without_scripts_everything_is_there(page: Path, browser: Any) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page.as_uri())
        body = browser.find_element("tag name", "body").text
        assert "validation/c0/leak.jpg" in body
        assert HOSTILE in body
        assert not browser.find_element("id", "search").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


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
