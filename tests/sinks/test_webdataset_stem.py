"""Names inside an archive: safe for every reader, unique, the same every time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.sinks.tar_framing import header
from dataprep.sinks.webdataset_stem import Stems

keys = st.one_of(
    st.text(max_size=60),
    st.text("ab./_%", max_size=12),
    st.text(["a", "é", "/", ".", "\udcff"], min_size=80, max_size=400),
)


@pytest.mark.parametrize(
    ("key", "stem"),
    [
        ("n01440764/n01440764_10026.JPEG", "n01440764/n01440764_10026"),
        ("ILSVRC2012_val_00000001.JPEG", "ILSVRC2012_val_00000001"),
        ("a/b.c.d.png", "a/b_c_d"),
        ("v1.0/b.png", "v1.0/b"),
        ("/etc/passwd", "etc/passwd"),
        ("../../x.jpg", "%2E%2E/%2E%2E/x"),
        ("./a//x.jpg", "%2E/a/x"),
        ("..", "_"),
        ("", "_"),
        (".jpg", "_jpg"),
        ("a/.hidden.jpg", "a/_hidden"),
        ("two words\n.jpg", "two%20words%0A"),
        ("山/é.jpg", "%E5%B1%B1/%C3%A9"),
        ("\udcff.jpg", "%FF"),
        ("__MACOSX__/x.jpg", "%5F_MACOSX__/x"),
    ],
)
def test_stems(key: str, stem: str) -> None:
    assert Stems().name(key) == stem


def test_equal_stems_are_told_apart_by_a_digest_of_the_key() -> None:
    stems = Stems()
    # sha256sum of "a.png", "d/a.b" and "1/a.png"
    assert [stems.name(key) for key in ("a.jpg", "a.png", "d/a", "d/a.b", "a.png")] == [
        "a",
        "a-7f071235805fbf58",
        "d/a",
        "d/a-1e2a6dd56cb8b462",
        "a-137c75bacac37dd7",
    ]


@given(st.lists(keys, max_size=20))
def test_no_two_stems_are_equal_and_all_are_safe(found: list[str]) -> None:
    stems = Stems()
    names = [stems.name(key) for key in found]
    assert len(set(names)) == len(names)
    again = Stems()
    assert [again.name(key) for key in found] == names
    for name in names:
        assert re.fullmatch(r"[!-~]+", name)
        assert "\\" not in name
        *directories, base = name.split("/")
        assert base
        assert "." not in base
        assert not {"", ".", ".."} & set(directories)
        assert not re.match(r"__[^/]*__($|/)", f"{name}.jpg")
        assert len(header(f"{name}.json".encode("ascii"), 0)) == 512
