"""`dataprep browse`: who may look, what is shown, what is marked, and where thumbnails are."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest
from PIL import Image

import dataprep
from dataprep.errors import DataprepError, UsageError
from dataprep.review.browse.marks import Marks
from dataprep.review.browse.server import Server
from dataprep.review.browse.site import Browser, opened_in_browser, serve
from dataprep.review.browse.thumbnails import Thumbnails, make_room, tag
from dataprep.sealed.set import SealedSet
from dataprep.tables.decisions import read_decisions
from tests.conftest import Cli, Made
from tests.review.conftest import HOSTILE, Planted

pytest.importorskip("jinja2", reason="the extra report is not installed")


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode()


@dataclass
class Running:
    """A server, and one person's browser."""

    server: Server
    decisions: Path
    cookie: str = ""

    def ask(self, path: str, data: object = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            own = {"Content-Type": "application/json", "Origin": self.origin}
            given = {**own, **given}
        if self.cookie:
            given = {"Cookie": self.cookie, **given}
        body = None if data is None else json.dumps(data)
        connection.request("GET" if data is None else "POST", path, body, given)
        response = connection.getresponse()
        reply = Reply(response.status, response.headers, response.read())
        connection.close()
        return reply

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def begin(self) -> Reply:
        reply = self.ask(self.server.address.removeprefix(self.origin))
        self.cookie = (reply.headers["Set-Cookie"] or "").partition(";")[0]
        return reply

    def mark(self, rows: list[int], decision: str, **words: str) -> Reply:
        return self.ask("/marks", {"rows": rows, "decision": decision, **words})

    def lines(self) -> list[str]:
        return self.decisions.read_text().splitlines()[1:]


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches/dataprep/thumbnails"


@pytest.fixture
def running(planted: Planted, caches: Path, tmp_path: Path) -> Iterator[Running]:
    marks = Marks(tmp_path / "marks.csv", "mm")
    browser = Browser(SealedSet.read(planted.out), marks, where=None, near=None)
    with Server(browser) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Running(server, marks.path)
        server.shutdown()
    browser.thumbnails.close()


@pytest.fixture
def mine(running: Running) -> Running:
    running.begin()
    return running


def cards(text: str) -> list[tuple[int, str, str]]:
    """(row, tag, key) of each picture of a page."""
    found = re.findall(r'data-key="([^"]*)"[\s\S]*?src="/small/[0-9a-f]+/(\d+)/([0-9a-f]+)"', text)
    return [(int(row), named, key) for key, row, named in found]


def row_of(running: Running, key: str) -> int:
    (row,) = [row for row, _, it in cards(running.ask("/?page=1").text) if it == key]
    return row


def test_the_token_is_good_once(running: Running) -> None:
    assert running.ask("/?token=wrong").status == 403
    first = running.begin()
    assert first.status == 200
    assert "HttpOnly; SameSite=Strict" in first.headers["Set-Cookie"]
    assert running.ask("/").status == 200
    again = Running(running.server, running.decisions).begin()
    assert (again.status, again.headers["Set-Cookie"]) == (403, None)
    assert "good once" in again.text
    assert running.ask(running.server.address.removeprefix(running.origin)).status == 200


@pytest.mark.parametrize("path", ["/", "/findings", "/classes", "/picture/0", "/browse.js", "/no"])
def test_another_user_of_the_machine_learns_nothing(running: Running, path: str) -> None:
    running.cookie = f"{running.server.cookie}=guessed; dataprep-1=x"
    reply = running.ask(path)
    assert (reply.status, len(reply.data) < 100) == (403, True)
    assert running.ask("/marks", {"rows": [0], "decision": "sure"}).status == 403
    assert not running.decisions.exists()


def test_another_name_of_this_machine_is_refused(mine: Running) -> None:
    port = mine.server.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}"):
        assert mine.ask("/", Host=host).status == 403
        assert mine.ask(f"/?token={'x' * 43}", Host=host).text == "another host\n"
    assert mine.ask("/", Host=f"localhost:{port}").status == 200


def test_marks_come_from_this_page_only(mine: Running) -> None:
    data = {"rows": [0], "decision": "sure"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": f"http://127.0.0.1:{mine.server.port + 1}"},
        {"Origin": "null"},
        {"Content_Type": "text/plain"},
    ):
        assert mine.ask("/marks", data, **headers).status == 403
    assert mine.ask("/marks", data, Content_Length="70000").status == 413
    assert mine.ask("/marks").status == 404  # as a page
    assert not mine.decisions.exists()


def test_pages_are_not_kept_and_allow_nothing_but_ours(mine: Running) -> None:
    page = mine.ask("/")
    policy = page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?! src=\"/browse.js\")|<style|\son\w+=|\sstyle=", page.text)
    assert not re.findall(r"(?:src|href)=\"(?!/|\?)[^\"]", page.text)
    for path in ("/browse.css", "/browse.js", "/classes", "/favicon.ico"):
        assert mine.ask(path).status == 200
    for path in ("/../site.py", "/browse.css/..", "/small/", "/picture/x", "/picture/999999"):
        assert mine.ask(path).status == 404


class Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags = "", set[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_are_only_text(mine: Running) -> None:
    page = mine.ask("/").text
    assert HOSTILE not in page
    assert HOSTILE in Texts(page).text
    bad = "'\"><script>alert(1)</script>"
    for name in ("where", "label", "value", "sort", "split", "sample", "page"):
        reply = mine.ask(f"/?{urlencode({name: bad})}")
        assert bad not in reply.text
        assert reply.text.count("<script") == 1


def keys(mine: Running, **words: str) -> list[str]:
    reply = mine.ask(f"/?{urlencode(words)}")
    assert reply.status == 200, re.findall(r'role="alert">(.*)<', reply.text)
    return [key for _, _, key in cards(reply.text)]


def test_pictures_are_chosen_and_sorted(mine: Running) -> None:
    every = keys(mine)
    assert len(every) == 36 + 8
    assert len(keys(mine, split="val")) == 8
    assert {key[:2] for key in keys(mine, label="c0")} == {"c0"}
    assert keys(mine, attribute="width", value="300") == ["c1/narrow.jpg"]
    assert keys(mine, where="height < 40", split="train") == ["c1/narrow.jpg"]
    assert keys(mine, where="height < 40", split="validation") == []
    assert keys(mine, sort="contrast")[0] == "c1/blank.jpg"
    assert keys(mine, sort="contrast", down="1")[-1] == "c1/blank.jpg"
    some = keys(mine, sample="10%", sort="bytes")
    assert len(some) == 4 + 1
    assert some == [key for key in keys(mine, sort="bytes") if key in some]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"where": "widht > 3"}, "there is no column &#39;widht&#39;; did you mean width?"),
        ({"where": "width >"}, "SQL: "),
        ({"where": "key in (from read_text('/etc/passwd'))"}, "SQL: "),
        ({"split": "no"}, "has no split"),
        ({"label": "c00"}, "there is no class &#39;c00&#39;; did you mean c0?"),
        ({"sort": 'a"b'}, "there is no column"),
        ({"attribute": "widt", "value": "3"}, "did you mean width?"),
        ({"sample": "200%"}, "expected a share"),
    ],
)
def test_what_is_wrong_with_a_question_is_told(
    mine: Running, words: dict[str, str], said: str
) -> None:
    reply = mine.ask(f"/?{urlencode(words)}")
    assert reply.status == 400
    assert said in reply.text
    assert len(cards(reply.text)) == 0


def test_thumbnails_are_kept_outside_the_set(mine: Running, planted: Planted, caches: Path) -> None:
    before = sorted(planted.out.rglob("*"))
    text = mine.ask("/?page=1").text
    addresses = re.findall(r'src="(/small/[^"]+)"', text)
    first = [mine.ask(address) for address in addresses[:12]]
    assert {reply.status for reply in first} == {200}
    assert "immutable" in first[0].headers["Cache-Control"]
    with Image.open(io.BytesIO(first[0].data)) as picture:
        assert max(picture.size) <= 176
    kept = [path for path in caches.rglob("*") if path.is_file()]
    assert len(kept) == 12
    assert sorted(planted.out.rglob("*")) == before
    assert all(path.stat().st_mode & 0o077 == 0 for path in (caches, *caches.rglob("*")))
    kept[0].write_bytes(kept[0].read_bytes()[:99])  # as a power cut leaves it
    assert [mine.ask(address).data for address in addresses[:12]] == [it.data for it in first]
    assert mine.ask(addresses[0][:-1] + "!").status == 404  # of another key
    assert mine.ask(addresses[0].replace("small", "large")).status == 200


def test_old_thumbnails_go_when_there_are_many(tmp_path: Path) -> None:
    for number in range(4):
        place = tmp_path / f"set{number % 2}" / str(number)
        place.mkdir(parents=True)
        (place / "1.jpg").write_bytes(bytes(1000))
        os.utime(place, (number, number))
    make_room(tmp_path, 2500)
    assert sorted(path.parent.name for path in tmp_path.rglob("*.jpg")) == ["2", "3"]


def test_of_a_damaged_shard_there_are_words(planted: Planted, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(planted.out, out)
    sealed = SealedSet.read(out)
    for shard in sealed.manifest.shards():
        path = out / shard.files[0].path
        path.write_bytes(bytes(path.stat().st_size))
    thumbnails = Thumbnails(sealed, None)
    with pytest.raises(DataprepError):
        thumbnails.picture(0, tag("c0/00.jpg"))
    browser = Browser(sealed, Marks(tmp_path / "marks.csv", "mm"), where=None, near=None)
    page = browser.get("/", {})
    assert page is not None
    row, named, _ = cards(page.data.decode())[0]
    version = sealed.manifest.sha256[:16]
    none = browser.get(f"/small/{version}/{row}/{named}", {})
    assert none is not None
    assert (none.status, none.kept, b">no picture<" in none.data) == (404, False, True)
    assert browser.get(f"/picture/{row}", {}) is not None


def test_marks_are_in_the_file_at_once(mine: Running) -> None:
    first, second = row_of(mine, "c0/00.jpg"), row_of(mine, "c1/blank.jpg")
    assert json.loads(mine.mark([second], "leave_out").text) == {
        "images": [["train", "c1/blank.jpg", ["left out"]]],
        "said": "left out: train/c1/blank.jpg",
    }
    assert mine.lines() == ["c1/blank.jpg,train,leave_out,,mm,"]
    mine.mark([first, second], "label", value=" c1 | c2 ")
    mine.mark([first], "split", value="val")
    mine.mark([first], "note", note="a, b")
    assert mine.lines() == [
        "c1/blank.jpg,train,leave_out,,mm,",
        "c0/00.jpg,train,label,c1|c2,mm,",
        "c1/blank.jpg,train,label,c1|c2,mm,",
        "c0/00.jpg,train,split,validation,mm,",
        'c0/00.jpg,train,note,,mm,"a, b"',
    ]
    mine.mark([first], "sure")  # not with the others
    assert [line for line in mine.lines() if "c0/00" in line] == [
        *('c0/00.jpg,train,note,,mm,"a, b"', "c0/00.jpg,train,sure,,mm,")
    ]
    assert len(read_decisions([mine.decisions])) == 4
    assert "label c1|c2" in mine.ask("/?page=1").text


def test_changes_are_taken_back_one_by_one(mine: Running) -> None:
    row, states = row_of(mine, "c0/00.jpg"), [""]
    for decision, value in (("leave_out", ""), ("label", "c1"), ("sure", ""), ("clear", "")):
        assert mine.mark([row], decision, value=value).status == 200
        states.append("".join(sorted(mine.lines())))
    for state in reversed(states[:-1]):
        assert json.loads(mine.mark([], "undo").text)["said"] == "undone: train/c0/00.jpg"
        assert "".join(sorted(mine.lines())) == state
    assert json.loads(mine.mark([], "undo").text)["images"] == []


def test_what_others_decided_stays_and_is_shown(mine: Running) -> None:
    head = "key,split,decision,value,who,note\n"
    mine.decisions.write_text(f"{head}c0/00.jpg,,label,c2,jd,\nclass:c1,,label,c2,jd,\n")
    row = row_of(mine, "c0/00.jpg")
    assert "label c2 (jd)" in mine.ask("/?page=1").text
    mine.mark([row], "leave_out")
    assert mine.lines()[:2] == ["c0/00.jpg,,label,c2,jd,", "class:c1,,label,c2,jd,"]
    mine.mark([row], "clear")
    assert len(mine.lines()) == 2
    mine.decisions.write_text("no decisions")
    assert mine.mark([row], "sure").status == 400
    assert mine.decisions.read_text() == "no decisions"


@pytest.mark.parametrize(
    "data",
    [
        {"rows": [10**9], "decision": "sure"},
        {"rows": [-1], "decision": "sure"},
        {"rows": [0], "decision": "no such"},
        {"rows": [0], "decision": "label", "value": "c9"},
        {"rows": [0], "decision": "split", "value": "no"},
        {"rows": [0], "decision": "note", "note": "\0"},
        {"rows": [0] * 201, "decision": "sure"},
        {"rows": "0", "decision": "sure"},
        [],
    ],
)
def test_marks_that_say_nothing_are_refused(mine: Running, data: object) -> None:
    reply = mine.ask("/marks", data)
    assert reply.status == 400
    assert json.loads(reply.text)["error"]
    assert not mine.decisions.exists()


def findings(mine: Running) -> str:
    for _ in range(600):
        page = mine.ask("/findings").text
        if "Looking for" not in page:
            break
        threading.Event().wait(0.1)
    return page


def test_findings_are_shown_pair_beside_pair(mine: Running) -> None:
    page = findings(mine)
    rules = re.findall(r'href="/findings\?rule=([a-z-]+)"', page)
    assert {"leak", "near-leak", "conflict", "blank"} <= {*rules}
    leak = mine.ask("/findings?rule=leak").text
    assert [key for _, _, key in cards(leak)] == ["c0/leak.jpg", "c0/00.jpg"]
    assert "255 bits differ" in mine.ask("/findings?rule=near-leak").text
    for rule in rules:
        assert mine.ask(f"/findings?rule={rule}&page=7").status == 200
    assert "contradict" not in page
    mine.decisions.write_text(
        "key,split,decision,value,who,note\nc0/00.jpg,train,label,c1,jd,\n"
        "c0/00.jpg,train,label,c2,mm,\n"
    )
    said = "train/c0/00.jpg: label c1 (jd), label c2 (mm)"
    assert f"<li>{said}</li>" in findings(mine)


def test_files_that_cannot_be_of_marks_are_refused(planted: Planted, tmp_path: Path) -> None:
    sealed = SealedSet.read(planted.out)
    how = {"where": None, "who": "mm", "port": 0, "near": None, "ready": print}
    for decisions, said in (
        (planted.out / "train/marks.csv", "is in the data set"),
        (tmp_path / "a.parquet", "written as CSV"),
    ):
        with pytest.raises(UsageError, match=said):
            serve(sealed, decisions=decisions, **how)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--who"):
        Marks(tmp_path / "marks.csv", "m\0m")


def test_a_browser_finds_the_address_in_a_file_of_this_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with opened_in_browser("http://127.0.0.1:1/?token=secret"):
        (address,) = opened
        path = Path(address.removeprefix("file://"))
        assert "secret" not in address
        assert "url=http://127.0.0.1:1/?token=secret" in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
    assert not path.exists()


def test_the_command_serves_until_ctrl_c(tiny: Made, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "marks.csv"
    process = cli.start("browse", tiny.out, "--decisions", file, "--who", "mm")
    assert process.stdout is not None
    assert process.stdout.readline() == f"marks of mm go into {file}\n"
    said = re.fullmatch(
        r"open http://127.0.0.1:(\d+)(/\?token=\S+) \(.*", process.stdout.readline().strip()
    )
    assert said is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(said[1]), timeout=60)
    connection.request("GET", said[2])
    response = connection.getresponse()
    assert (response.status, b"Go on" in response.read()) == (200, True)
    connection.close()
    process.send_signal(signal.SIGINT)
    result = cli.done(process)
    assert result.code == 130
    assert result.err.strip().endswith("stopped by SIGINT; every mark is written")
    assert "there is no column 'no'" in cli("browse", tiny.out, "--where", "no").error


def test_select_applies_what_was_marked(
    mine: Running, planted: Planted, cli: Cli, tmp_path: Path
) -> None:
    first, blank, narrow = (
        row_of(mine, key) for key in ("c0/00.jpg", "c1/blank.jpg", "c1/narrow.jpg")
    )
    mine.mark([blank], "leave_out")
    mine.mark([first, narrow], "label", value="c2")
    mine.mark([narrow], "split", value="validation")
    mine.mark([first], "note", note="a, b")
    out = tmp_path / "cleaned"
    result = cli("select", planted.out, "--to", out, "--decisions", mine.decisions)
    assert result.code == 0, result
    records = dataprep.sql(
        out, "select key, split, classes from records where position is not null"
    )
    found = {one["key"]: (one["split"], one["classes"]) for one in records.to_pylist()}
    assert len(found) == 43
    assert found["c0/00.jpg"] == ("train", ["c2"])
    assert found["c1/narrow.jpg"] == ("validation", ["c2"])
