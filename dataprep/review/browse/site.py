"""The pages of ``dataprep browse``, each by its address; what is posted there; and serving them."""

from __future__ import annotations

import getpass
import json
import re
import tempfile
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dataprep.errors import DataprepError, UsageError
from dataprep.images.pillow import PILLOW_ERRORS
from dataprep.review.browse.marks import Image, Marks
from dataprep.review.browse.pages import ALIKE, FINDINGS, PICTURES, Lint, Pictures, Question
from dataprep.review.browse.server import Answer, Server
from dataprep.review.browse.thumbnails import LARGE, SIDE, Thumbnails, cache_directory
from dataprep.review.pictures import short
from dataprep.sealed.set import SealedSet
from dataprep.system.messages import counted, printable
from dataprep.tables.decisions import Decision, Kind

if TYPE_CHECKING:
    import jinja2

_NO_PICTURE: Final = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 176 176">
<rect width="176" height="176" fill="#808080" fill-opacity=".2"/>
<text x="88" y="92" fill="#808080" font-size="15" text-anchor="middle">no picture</text></svg>"""
_STATIC: Final = {"/browse.css": "text/css", "/browse.js": "text/javascript"}


class Mark(msgspec.Struct, forbid_unknown_fields=True):
    """What the page's script posts."""

    rows: list[int]
    decision: str  # a kind; or clear, or undo
    value: str = ""
    note: str = ""


class Browser:
    """A `dataprep.review.browse.server.Site` about one data set.

    Args:
        near: whether to look for look-alikes; None: if there are few enough images.
        where: a condition that the first page begins with.

    Raises:
        DatasetError: it is damaged, or a part.
        UsageError: the condition is wrong, or what draws a page is not installed.
    """

    def __init__(
        self, sealed: SealedSet, marks: Marks, *, where: str | None, near: bool | None
    ) -> None:
        self._marks = marks
        self._pictures = Pictures(sealed)
        self._lint = Lint(sealed, near=near)
        self.thumbnails = Thumbnails(sealed, cache_directory())
        self._template = _template()
        self._first = Question(where=where or "")
        self._pictures.rows(self._first)  # what is wrong with it is told before a page is opened
        self._version = sealed.manifest.sha256[:16]
        self._name = short(sealed.out.resolve().name)
        self._classes = [
            (printable(identifier), printable(name)) for identifier, name in sealed.manifest.classes
        ]
        self._sealed = sealed

    def get(self, path: str, words: Mapping[str, str]) -> Answer | None:
        """A page, a thumbnail, or what both need."""
        if path == "/":
            return self._page(partial(self._shown, words), words)
        if path == "/findings":
            return self._page(partial(self._findings, words), words)
        if path in _STATIC:
            data = files("dataprep.review.browse").joinpath(path[1:]).read_bytes()
            return Answer(data, f"{_STATIC[path]}; charset=utf-8")
        if path == "/favicon.ico":
            return Answer(b"", "image/x-icon", kept=True)  # browsers ask for it
        if path == "/classes":
            return Answer(json.dumps(self._classes).encode(), "application/json")
        if found := re.fullmatch(
            f"/(small|large)/{self._version}/([0-9]{{1,12}})/([0-9a-f]{{16}})", path
        ):
            side = SIDE if found[1] == "small" else LARGE
            return self._thumbnail(int(found[2]), found[3], side)
        row = path.removeprefix("/picture/")
        if _is_row(row) and int(row) < self._sealed.records:
            return self._page(partial(self._alone, int(row)), words)
        return None

    def post(self, path: str, data: bytes) -> Answer | None:
        """A mark; the answer says what the images have now."""
        if path != "/marks":
            return None
        try:
            said = self._mark(msgspec.json.decode(data, type=Mark))
        except (ValueError, DataprepError) as error:
            said, status = {"error": printable(str(error))}, 400
        else:
            status = 200
        return Answer(json.dumps(said).encode(), "application/json", status)

    def _mark(self, mark: Mark) -> dict[str, Any]:
        stored = range(self._sealed.records)
        if len(mark.rows) > PICTURES or not all(row in stored for row in mark.rows):
            raise ValueError("there is no such image")
        images = [card.image for card in self._pictures.cards(mark.rows)]
        value = mark.value.strip()
        if mark.decision == "undo":
            images = [*self._marks.undo()]
            return {"images": self._told(images), "said": f"undone: {_of(images)}"}
        if mark.decision == "clear":
            self._marks.clear(images)
            return {"images": self._told(images), "said": f"marks taken away: {_of(images)}"}
        if mark.decision == "label":
            given = [each.strip() for each in value.split("|") if each.strip()]
            classes = self._sealed.manifest.classes
            value = "|".join(classes[self._pictures.class_number(each)][0] for each in given)
        elif mark.decision == "split":
            value = self._sealed.split_called(value)
        kind: Kind = mark.decision  # type: ignore[assignment]  # which Decision looks at
        self._marks.mark(images, kind, value, mark.note)
        return {"images": self._told(images), "said": f"{_words(kind, value)}: {_of(images)}"}

    def _told(self, images: Sequence[Image]) -> list[tuple[str, str, list[str]]]:
        found = self._marks.of(images)
        return [(*image, self._marked(found.get(image, ()))) for image in images]

    def _marked(self, decisions: Iterable[Decision]) -> list[str]:
        """Each in words; of others, with their names."""
        return [
            short(
                _words(one.decision, one.value)
                + (f": {one.note}" if one.note else "")
                + (f" ({one.who or 'nobody named'})" if one.who != self._marks.who else "")
            )
            for one in decisions
        ]

    def _thumbnail(self, row: int, named: str, side: int) -> Answer:
        try:
            data = self.thumbnails.picture(row, named, side)
        except (DataprepError, *PILLOW_ERRORS):  # it is damaged
            return Answer(_NO_PICTURE, "image/svg+xml", HTTPStatus.NOT_FOUND)
        return Answer(data, "image/jpeg", kept=True)

    def _page(self, made: Callable[[], dict[str, Any]], words: Mapping[str, str]) -> Answer:
        """A page of what a function finds; or of why there is nothing, with the form as it was."""
        status, found = 200, dict[str, Any]()
        try:
            found = made()
        except UsageError as error:
            status, found = 400, {"error": str(error)}
        except DataprepError as error:
            status, found = 500, {"error": str(error)}
        text = self._template.render(
            name=self._name,
            version=self._version,
            records=self._sealed.records,
            splits=[*self._sealed.splits],
            columns=self._pictures.columns,
            file=printable(str(self._marks.path)),
            who=printable(self._marks.who),
            **{"view": "pictures", "question": Question.of(words), "error": "", **found},
        )
        return Answer(text.encode(errors="replace"), status=status)

    def _shown(self, words: Mapping[str, str]) -> dict[str, Any]:
        question = Question.of(words) if words else self._first
        rows = self._pictures.rows(question)
        page, pages = _page_of(words, len(rows), PICTURES)
        cards = self._pictures.cards(rows[(page - 1) * PICTURES : page * PICTURES])
        return {
            "question": question,
            "found": len(rows),
            "cards": cards,
            "marks": self._marks_of(cards),
            "page": page,
            "pages": pages,
            "address": question.address,
        }

    def _alone(self, row: int) -> dict[str, Any]:
        cards = self._pictures.cards([row])
        marks, facts = self._marks_of(cards), self._pictures.facts(row)
        return {"view": "picture", "cards": cards, "marks": marks, "facts": facts}

    def _findings(self, words: Mapping[str, str]) -> dict[str, Any]:
        self._lint.begin()
        if self._lint.error:
            raise DataprepError(self._lint.error)
        if self._lint.found is None:
            return {"view": "waiting", "percent": self._lint.percent}
        told: dict[str, Any] = {
            "view": "findings",
            "rules": self._lint.found,
            "remarks": self._lint.remarks,
        }
        name = words.get("rule", "")
        entry = next((it for it in self._lint.found if it.rule == name), None)
        if entry is None:
            return {**told, "contradictions": self._marks.contradictions()}
        page, pages = _page_of(words, len(entry.findings), FINDINGS)
        some = entry.findings[(page - 1) * FINDINGS : page * FINDINGS]
        stored = {it for one in some for it in one.images[:ALIKE]} & self._lint.rows.keys()
        cards = self._pictures.cards([self._lint.rows[image] for image in stored])
        by_image = {card.image: card for card in cards}
        pairs = [
            (short(it.text, 300), [by_image[one] for one in it.images[:ALIKE] if one in by_image])
            for it in some
        ]
        told |= {"entry": entry, "pairs": pairs, "marks": self._marks_of(cards)}
        address = f"/findings?rule={entry.rule}&page={{}}".format
        return {**told, "page": page, "pages": pages, "address": address}

    def _marks_of(self, cards: Iterable[Any]) -> dict[Image, list[str]]:
        found = self._marks.of(card.image for card in cards)
        return {image: self._marked(decisions) for image, decisions in found.items()}


def _of(images: Sequence[Image]) -> str:
    return short("/".join(images[0])) if len(images) == 1 else counted(len(images), "image")


def _words(kind: str, value: str) -> str:
    """A decision in words."""
    said = {"leave_out": "left out", "label": f"label {value or 'none'}", "split": f"split {value}"}
    return said.get(kind, kind)


def _is_row(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 12


def _page_of(words: Mapping[str, str], count: int, each: int) -> tuple[int, int]:
    """Which page an address says, from 1, and how many there are."""
    pages = max(1, -(-count // each))
    said = words.get("page", "")
    return min(max(int(said), 1), pages) if _is_row(said) else 1, pages


def _template() -> jinja2.Template:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise UsageError("browse needs Jinja2; install dataprep-shards[report]") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dataprep.review.browse", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = short
    return environment.get_template("browse.html.j2")


def serve(
    sealed: SealedSet,
    *,
    where: str | None,
    decisions: Path,
    who: str | None,
    port: int,
    near: bool | None,
    ready: Callable[[str, Path, str], object],
) -> None:
    """Serve pages about a data set until something is raised, such as by a signal.

    Args:
        decisions: the file of marks.
        who: makes them; None: this user.
        ready: told once the address, the file and the name, when it can be opened.

    Raises:
        DatasetError: it is damaged, or a part.
        UsageError: a condition, a file, a name or a port cannot be used, or Jinja2 is not there.
    """
    if decisions.resolve().is_relative_to(sealed.out.resolve()):
        raise UsageError(f"--decisions: {decisions} is in the data set; choose a file elsewhere")
    marks = Marks(decisions, _user() if who is None else who)
    browser = Browser(sealed, marks, where=where, near=near)
    try:
        with Server(browser, port) as server:
            ready(server.address, decisions, marks.who)
            server.serve_forever()
    finally:
        browser.thumbnails.close()


@contextmanager
def opened_in_browser(address: str) -> Iterator[None]:
    """Open an address in this user's browser, which finds it in a file that nobody else reads.

    A word of a command could be read by every user of the machine, and used first.
    """
    with tempfile.NamedTemporaryFile("w", prefix="dataprep-browse-", suffix=".html") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n')
        file.flush()
        webbrowser.open(Path(file.name).as_uri())
        yield


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""
