"""Names from archives are data: whatever they say, no file appears outside OUT."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from PIL import Image

from tests.conftest import Cli, rows_of

NAMES = (
    "../n01440764_1.JPEG",
    "../../../n01440764_2.JPEG",
    "/n01440764_3.JPEG",
    "/etc/../n01440764_4.JPEG",
    "./n01440764_5.JPEG",
    "a/../../n01440764_6.JPEG",
    "n01440764_7;touch pwned.JPEG",
    "n01440764_8\nrejected: a line of its own.JPEG",
    "n01440764_9\x1b[2J.JPEG",
    "n01440764_" + "long" * 60 + ".JPEG",
    "n01440764_..JPEG",
)


def tar(members: list[tarfile.TarInfo], contents: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", errors="surrogateescape") as archive:
        for member in members:
            content = contents.get(member.name, b"")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def good_image() -> tuple[tarfile.TarInfo, bytes]:
    """One that is not rejected, since an empty shard is never sealed."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 16)).save(stream, "JPEG")
    return tarfile.TarInfo("n01440764_99.JPEG"), stream.getvalue()


def link(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_hostile_names_create_nothing_outside(cli: Cli, tmp_path: Path) -> None:
    raw, out = tmp_path / "world" / "raw", tmp_path / "world" / "out"
    contents = {name: f"no image {number}".encode() for number, name in enumerate(NAMES)}
    members = [tarfile.TarInfo(name) for name in NAMES]
    members += [
        link("n01440764_70.JPEG", tarfile.SYMTYPE, "/etc/passwd"),
        link("n01440764_71.JPEG", tarfile.LNKTYPE, "../../secret"),
        link("n01440764_72.JPEG", tarfile.FIFOTYPE, ""),
        link("n01440764_73.JPEG", tarfile.CHRTYPE, ""),
        link("n01440764_74.JPEG", tarfile.DIRTYPE, ""),
    ]
    good, data = good_image()
    (raw / "train").mkdir(parents=True)
    (raw / "train" / "n01440764.tar").write_bytes(
        tar([*members, good], {**contents, good.name: data})
    )
    before = set(tmp_path.rglob("*"))
    words = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train")
    result = cli("imagenet", *words, "--max_bad", "100%")
    assert result.code == 0, result
    made = set(tmp_path.rglob("*")) - before
    assert all(path == out or out in path.parents for path in made)
    assert not any(path.is_symlink() for path in made)
    inside = [name for name in NAMES if ".." not in name.split("/")]
    assert 0 < len(inside) < len(NAMES)
    assert len(rows_of(out, "rejected")) == len(inside)
    outside = set(NAMES) - set(inside)
    ignored = {row["key"] for row in rows_of(out, "ignored")} - outside
    assert ignored == {f"n01440764_{number}.JPEG" for number in range(70, 74)}


def test_hostile_names_never_reach_the_terminal_raw(cli: Cli, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    contents = dict.fromkeys(NAMES[6:9], b"no image")
    members = [tarfile.TarInfo(name) for name in contents]
    members.append(link("n01440764\x1b[2J\nignored.JPEG", tarfile.SYMTYPE, "x"))
    good, data = good_image()
    (raw / "train").mkdir(parents=True)
    (raw / "train" / "n01440764.tar").write_bytes(
        tar([*members, good], {**contents, good.name: data})
    )
    words = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train")
    results = [cli("imagenet", *words, "--max_bad", "9"), cli("status", out), cli("inspect", out)]
    for result in results:
        assert result.code == 0, result
        shown = result.out + result.err
        assert "\x1b" not in shown
        assert not any(
            line.startswith(("rejected: a line", "ignored.JPEG")) for line in shown.splitlines()
        )
    assert results[0].out.count("rejected: train: ") == 3
