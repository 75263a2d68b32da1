"""Slurm's compact lists of hosts, as ``scontrol show hostnames`` expands them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.staging.nodes.schedulers import expand_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n0", ["n0"]),
        ("login", ["login"]),
        ("n0,n1", ["n0", "n1"]),
        ("n[0-2,5]", ["n0", "n1", "n2", "n5"]),
        ("n[0-1],m-a[09-11]b", ["n0", "n1", "m-a09b", "m-a10b", "m-a11b"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[099-100]", ["n099", "n100"]),
        ("n[1,01,001]", ["n1", "n01", "n001"]),
        ("r[0-1]n[00-01]", ["r0n00", "r0n01", "r1n00", "r1n01"]),
        ("n[5]", ["n5"]),
        ("x1.site.org,x[2-3].site.org", ["x1.site.org", "x2.site.org", "x3.site.org"]),
        ("[0-1]", ["0", "1"]),
    ],
)
def test_a_list_stands_for_its_hosts_in_order(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "n0,",
        ",n0",
        "n0,,n1",
        "n[",
        "n]",
        "n[]",
        "n[0-]",
        "n[a]",
        "n[2-1]",
        "n[0-1",
        "n[[0]]",
    ],
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"character|range|backwards"):
        expand_hosts(text)


def test_a_list_of_absurdly_many_hosts_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ValueError, match="more than"):
        expand_hosts("n[0-99999999999999]")


_PREFIXES = st.text("abz-.", min_size=1, max_size=4)
_RANGES = st.tuples(st.integers(0, 1200), st.integers(0, 12), st.integers(1, 4))


@given(st.lists(st.tuples(_PREFIXES, st.lists(_RANGES, max_size=3), _PREFIXES), min_size=1))
def test_every_list_expands_to_what_it_was_made_from(
    entries: list[tuple[str, list[tuple[int, int, int]], str]],
) -> None:
    parts, hosts = [], []
    for prefix, ranges, end in entries:
        if not ranges:
            parts.append(prefix + end)
            hosts.append(prefix + end)
            continue
        texts = []
        for first, more, digits in ranges:
            begin = f"{first:0{digits}d}"
            texts.append(begin if more == 0 else f"{begin}-{first + more:0{digits}d}")
            hosts += [
                f"{prefix}{number:0{len(begin)}d}{end}" for number in range(first, first + more + 1)
            ]
        parts.append(f"{prefix}[{','.join(texts)}]{end}")
    assert expand_hosts(",".join(parts)) == hosts


@given(st.text("n[]0-9,ab", max_size=12))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        hosts = expand_hosts(text)
    except ValueError:
        return
    assert hosts
    assert not set("".join(hosts)) & set("[],")


@pytest.mark.skipif(shutil.which("scontrol") is None, reason="scontrol (Slurm) is not installed")
@pytest.mark.parametrize(
    "text", ["n[0-2,5],m-a[01-10]", "r[0-1]n[00-03]", "n[8-11],login", "n[099-101]", "a[5],b-1x"]
)
def test_slurm_expands_alike(text: str, tmp_path: Path) -> None:
    configuration = tmp_path / "slurm.conf"  # no daemon is asked
    configuration.write_text("ClusterName=t\nSlurmctldHost=localhost\nNodeName=n0\n")
    done = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SLURM_CONF": str(configuration)},
    )
    if done.returncode != 0:
        pytest.skip(f"scontrol does not work here: {done.stderr.strip()}")
    assert expand_hosts(text) == done.stdout.split()
