"""The pages of `dataprep browse` in Chromium: keys, small and dark screens, and for everybody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dataprep.review.browse.marks import Marks
from dataprep.review.browse.server import Server
from dataprep.review.browse.site import Browser
from dataprep.sealed.set import SealedSet
from tests.browser import chromium
from tests.review.conftest import HOSTILE, Planted

pytest.importorskip("jinja2", reason="the extra report is not installed")
pytestmark = pytest.mark.thorough

LEFT, UP, RIGHT, DOWN = "\ue012", "\ue013", "\ue014", "\ue015"
ENTER, TAB = "\ue007", "\ue004"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def decisions(
    planted: Planted, browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The file of marks; the browser is at the first page."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    marks = Marks(tmp_path / "marks.csv", "mm")
    site = Browser(SealedSet.read(planted.out), marks, where=None, near=None)
    with Server(site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        look(browser, 1280, "light")
        browser.get(server.address)
        until(lambda: browser.current_url.endswith(f":{server.port}/"))
        yield marks.path
        browser.get("about:blank")
        server.shutdown()
    site.thumbnails.close()


def until(met: Callable[[], object]) -> None:
    for _ in range(300):
        if met():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it did not come about")


def look(browser: Any, width: int, theme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def press(browser: Any, words: str) -> None:
    browser.switch_to.active_element.send_keys(words)


def key_at(browser: Any) -> str:
    found = browser.execute_script(
        "return document.activeElement.closest('.card')?.dataset.key || ''"
    )
    return str(found)


def lines(decisions: Path, count: int) -> list[str]:
    found: list[str] = []

    def come() -> bool:
        found[:] = decisions.read_text().splitlines()[1:] if decisions.exists() else []
        return len(found) == count

    until(come)
    return found


def test_keys_do_everything(browser: Any, decisions: Path) -> None:
    press(browser, RIGHT)  # to the first
    keys = browser.execute_script(
        "return [...document.querySelectorAll('.card')].map(c => c.dataset.key)"
    )
    assert key_at(browser) == keys[0]
    press(browser, RIGHT + RIGHT + LEFT)
    assert key_at(browser) == keys[1]
    press(browser, DOWN)
    below = keys.index(key_at(browser))
    assert below > 2
    press(browser, UP)
    assert key_at(browser) == keys[1]
    press(browser, "x")
    assert lines(decisions, 1) == [f"{keys[1]},train,leave_out,,mm,"]
    until(lambda: "left out" in browser.find_element("css selector", "#said").text)
    press(browser, " " + RIGHT + " ")  # two are chosen
    press(browser, "l")
    until(lambda: browser.find_element("id", "ask").is_displayed())
    press(browser, "c2" + ENTER)
    assert [line.split(",")[2:4] for line in lines(decisions, 3)[1:]] == [["label", "c2"]] * 2
    until(lambda: key_at(browser) == keys[2])
    press(browser, "s")
    press(browser, "validation" + ENTER)
    lines(decisions, 4)
    press(browser, "n")
    press(browser, "odd" + ENTER)
    assert lines(decisions, 5)[-1] == f"{keys[2]},train,note,,mm,odd"
    until(lambda: key_at(browser) == keys[2])
    press(browser, "c")
    lines(decisions, 2)
    press(browser, "u")
    lines(decisions, 5)
    press(browser, ENTER)
    assert lines(decisions, 4)[-1] == f"{keys[2]},train,sure,,mm,"
    shown = "return document.activeElement.closest('.card').querySelector('.marks').innerText"
    until(lambda: browser.execute_script(shown).split() == ["note:", "odd", "sure"])
    press(browser, "?")
    assert browser.find_element("id", "keys").is_displayed()
    press(browser, ENTER)
    until(lambda: not browser.find_element("id", "keys").is_displayed())
    press(browser, "o")
    until(lambda: "/picture/" in browser.current_url)


def test_a_key_in_a_field_is_text(browser: Any, decisions: Path) -> None:
    field = browser.find_element("name", "where")
    field.send_keys("x l s u ?")
    assert field.get_attribute("value") == "x l s u ?"
    assert not decisions.exists()


def test_buttons_do_what_keys_do(browser: Any, decisions: Path) -> None:
    browser.find_element("css selector", ".card label").click()
    named = {it.text: it for it in browser.find_elements("css selector", "#tools button")}
    named["Sure"].click()
    lines(decisions, 1)
    named["Undo"].click()
    lines(decisions, 0)
    named["Label…"].click()
    until(
        lambda: (
            browser.execute_script("return document.querySelectorAll('#classes option').length")
            == 4
        )
    )
    browser.find_element("xpath", "//button[.='Cancel']").click()
    named["Keys"].click()
    assert browser.find_element("id", "keys").is_displayed()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_for_everybody(browser: Any, decisions: Path, width: int, theme: str) -> None:
    axe = pytest.importorskip("axe_selenium_python", reason="axe is not installed").Axe(browser)
    look(browser, width, theme)
    here = browser.current_url
    press(browser, RIGHT + "x")
    lines(decisions, 1)
    # The pages forbid scripts: axe is one, so they are looked at without that rule.
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    try:
        for path in ("?page=1", "?where=no", "picture/0", "findings", "findings?rule=leak"):
            browser.get(here + path)
            until(lambda: "Looking for" not in browser.page_source)
            axe.inject()
            assert [
                (entry["id"], [node["html"] for node in entry["nodes"][:3]])
                for entry in axe.run()["violations"]
            ] == []
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width
    finally:
        browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 23, 27)")


def test_the_focus_is_seen_and_nothing_is_refused(browser: Any, decisions: Path) -> None:
    browser.get_log("browser")
    browser.get(f"{browser.current_url}?page=1")
    broken = "return [...document.images].filter(image => image.complete && !image.naturalWidth)"
    assert browser.execute_script(broken) == []
    assert HOSTILE in browser.find_element("tag name", "body").text
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    press(browser, TAB)
    style = "return getComputedStyle(document.activeElement).outlineStyle"
    assert browser.execute_script(style) == "solid"


def test_without_scripts_one_can_look(browser: Any, decisions: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"{browser.current_url}?sort=key&page=1")
        assert len(browser.find_elements("css selector", ".card")) == 44
        assert not browser.find_element("id", "tools").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
