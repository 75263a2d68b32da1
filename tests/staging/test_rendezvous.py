"""Nodes that meet over real sockets: threads, processes, strangers, and all that can go wrong."""

from __future__ import annotations

import asyncio
import json
import resource
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from dataprep import __version__
from dataprep.errors import NoRoomError, StagingError, UsageError
from dataprep.staging import rendezvous
from dataprep.staging.agreement import Peers
from dataprep.staging.placement import Placement
from dataprep.staging.rendezvous import (
    candidate_ports,
    frame,
    meet,
    parse_address,
    receive,
)

_NO_NAME = "n" + "x" * 63  # too long for a name, so that no server is asked
LONG = 20.0  # seconds; a bound for tests in which nothing is to time out


def placed(node: int, nodes: int, leader: str | None = "127.0.0.1") -> Placement:
    return Placement(
        host=f"n{node}",
        node=node,
        nodes=nodes,
        local_rank=0,
        job="slurm-1",
        step="slurm-1.0",
        leader=leader,
        origin="Slurm",
    )


@pytest.fixture
def token() -> str:
    """One whose first port is free."""
    while True:
        token = secrets.token_hex(8)
        with suppress(OSError):
            socket.create_server(("", candidate_ports(token)[0])).close()
            return token


def together(
    token: str,
    nodes: int,
    work: Callable[[Peers], Any],
    *,
    leader: str | None = "127.0.0.1",
    seconds: float = LONG,
    **options: Any,
) -> list:
    """What ``work`` returned or raised on every node, each in a thread of its own."""

    def one(node: int) -> Any:
        try:
            with meet(placed(node, nodes, leader), token, seconds=seconds, **options) as peers:
                return work(peers)
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            return error

    with ThreadPoolExecutor(nodes) as pool:
        return list(pool.map(one, range(nodes)))


def one_message(results: list) -> str:
    """What all nodes were told, if it was the same."""
    assert all(isinstance(result, StagingError) for result in results), results
    (message,) = {str(result) for result in results}
    assert "\n" not in message
    return message


def count_reports(peers: Peers) -> int:
    return len(peers.exchange({}))


# --- all goes well ---


def test_every_node_gets_every_report_in_order_again_and_again(token: str) -> None:
    def work(peers: Peers) -> Any:
        first = peers.exchange({"node": peers.index, "text": "é\n"})
        return [first, peers.exchange({"again": peers.index})]

    results = together(token, 5, work)
    expected = [[{"node": k, "text": "é\n"} for k in range(5)], [{"again": k} for k in range(5)]]
    assert results == [expected] * 5


def test_200_nodes_meet(token: str) -> None:
    results = together(token, 200, lambda peers: len(peers.exchange({"pad": "x" * 3000})))
    assert results == [200] * 200


def test_nodes_may_leave_one_after_the_other_and_nobody_is_lost(token: str) -> None:
    failures: list[StagingError] = []
    turns = [threading.Event() for _ in range(5)]
    turns[0].set()

    def work(peers: Peers) -> None:
        peers.exchange({})
        # Node 0 leaves first; it stays in the background for the others.
        assert turns[peers.index].wait(LONG)
        assert failures == []
        turns[peers.index + 1].set()

    assert together(token, 4, work, on_failure=failures.append) == [None] * 4
    assert failures == []


def test_the_same_nodes_may_meet_again_at_once(token: str) -> None:
    def one(node: int) -> list[Any]:
        rounds = []
        for turn in range(10):
            with meet(placed(node, 4), token, seconds=LONG) as peers:
                rounds.append(list(peers.exchange({"turn": turn})))
        return rounds

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(one, range(4)))
    assert results == [[[{"turn": turn}] * 4 for turn in range(10)]] * 4


def test_a_node_may_come_late(token: str) -> None:
    with ThreadPoolExecutor(3) as pool:

        def one(node: int) -> int:
            with meet(placed(node, 3), token, seconds=LONG) as peers:
                return count_reports(peers)

        # Node 1 finds nobody listening yet; node 0 waits for node 2.
        first = pool.submit(one, 1)
        time.sleep(0.1)
        second = pool.submit(one, 0)
        time.sleep(0.1)
        third = pool.submit(one, 2)
        assert [first.result(), second.result(), third.result()] == [3, 3, 3]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_address_that_is_given_is_used(token: str, host: str) -> None:
    if host == "[::1]" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    address = f"{host}:{candidate_ports(token)[3]}"
    assert together(token, 2, count_reports, leader=None, address=address) == [2, 2]


def test_a_domain_that_is_not_known_is_left_out(token: str) -> None:
    assert together(token, 2, count_reports, leader=f"localhost.{_NO_NAME}") == [2, 2]


# --- nodes that do not come, fail, or contradict each other ---


def test_nodes_that_do_not_come_are_named_everywhere(token: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(meet, placed(0, 4), token, seconds=0.5)
        other = pool.submit(meet, placed(2, 4), token, seconds=LONG)
        message = one_message([one.exception(), other.exception()])
    assert message.startswith("nodes 1, 3 of 4 did not come to node 0 within 0.5 s")
    assert "srun -K" in message


@pytest.mark.parametrize(
    ("leader", "why"),
    [
        ("127.0.0.1", r"127.0.0.1 \(16 ports .* 0.2 s: .*Connect call failed"),
        (_NO_NAME, "is not resolved"),
    ],
)
def test_a_node_0_that_is_not_found_is_named_with_its_place(
    token: str, leader: str, why: str
) -> None:
    with pytest.raises(StagingError, match=rf"node 1 \(n1\) did not find node 0 at .*{why}"):
        meet(placed(1, 2, leader), token, seconds=0.2)


@pytest.mark.parametrize("kind", [StagingError, NoRoomError])
def test_the_failure_of_one_node_reaches_all_the_others_while_they_work(
    token: str, kind: type[StagingError]
) -> None:
    heard: list[StagingError] = []
    told = threading.Event()

    def on_failure(error: StagingError) -> None:
        heard.append(error)
        if len(heard) == 3:  # the one that failed knows
            told.set()

    def work(peers: Peers) -> None:
        peers.exchange({})
        if peers.index == 2:
            raise kind("disk full\nreally")
        assert told.wait(LONG)
        peers.exchange({})

    results = together(token, 4, work, on_failure=on_failure)
    assert str(results.pop(2)) == "disk full\nreally"
    assert one_message(results) == "node 2 (n2) failed: disk full really"
    assert {type(error) for error in (*results, *heard)} == {kind}


@pytest.mark.parametrize("node", [0, 1], ids=["node 0", "another"])
def test_the_failure_of_one_node_ends_the_waiting_of_all_the_others(token: str, node: int) -> None:
    def work(peers: Peers) -> None:
        if peers.index == node:
            raise KeyError
        peers.exchange({})

    results = together(token, 3, work)
    assert isinstance(results.pop(node), KeyError)
    assert one_message(results) == f"node {node} (n{node}) failed: KeyError"


def test_a_failure_that_comes_behind_the_reports_does_not_hide_them(token: str) -> None:
    told = threading.Event()

    def work(peers: Peers) -> Any:
        if peers.index == 1:
            peers.exchange({})
            raise StagingError("later")
        if peers.index == 2:
            peers._loop.call_soon_threadsafe(peers._writer.write, frame({"report": {}}))
            assert told.wait(LONG)
            return len(peers._next(LONG))
        return count_reports(peers)

    assert together(token, 3, work, on_failure=lambda _: told.set())[2] == 3


def test_a_node_that_leaves_early_is_named(token: str) -> None:
    results = together(token, 3, lambda peers: peers.index != 1 and peers.exchange({}))
    assert results.pop(1) is False
    assert "node 1 (n1) left while others" in one_message(results)


def test_a_node_that_hangs_is_named(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_PATIENCE", 0.2)
    answered = threading.Event()

    def work(peers: Peers) -> None:
        if peers.index == 2:
            assert answered.wait(LONG)
        try:
            peers.exchange({})
        finally:
            answered.set()

    message = one_message(together(token, 3, work))
    assert message.startswith("node 2 (n2) of 3 did not report within 0.2 s of the first")


class Visitor:
    """Somebody who talks to node 0 byte by byte."""

    def __init__(self, token: str) -> None:
        deadline = time.monotonic() + LONG
        while True:
            try:
                address = ("127.0.0.1", candidate_ports(token)[0])
                self.connection = socket.create_connection(address, LONG)
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.005)
        self._key = f"{token}\n"
        self._answers = self.connection.makefile("rb")

    def hear(self) -> dict[str, Any]:
        """The next message; nothing if there is none."""
        try:
            (length,) = struct.unpack(">I", self._answers.read(4))
            return json.loads(zlib.decompress(self._answers.read(length)))
        except (OSError, struct.error):
            return {}

    def hello(self, **changed: object) -> dict[str, Any]:
        """What node 1 of 2 would say."""
        nonce = self.hear()["nonce"]
        told = {"node": 1, "of": 2, "host": "m", "version": __version__, "nonce": "0"}
        return {**told, "proof": rendezvous._proof(self._key, "node", nonce), **changed}

    def say(self, data: bytes) -> None:
        self.connection.sendall(data)

    def leave(self) -> None:
        self._answers.close()
        self.connection.close()


def meet_alone(token: str) -> None:
    """Node 0 of two."""
    with meet(placed(0, 2), token, seconds=LONG) as peers:
        peers.exchange({})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"of": 3}, "m is one of 3 nodes and runs dataprep "),
        ({"node": 2}, "m says that it is node 2 of 2"),
        ({"host": "twin"}, "m and twin both say that they are node 1"),
        ({"node": []}, "m says that it is node [] of 2"),
        ({"version": "0.0"}, f"runs dataprep 0.0, node 0 one of 2 and runs {__version__}; start"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_node_that_contradicts_the_others_ends_it(
    token: str, changed: dict[str, Any], expected: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        zero = pool.submit(meet_alone, token)
        first, odd = Visitor(token), Visitor(token)
        if "host" in changed:
            first.say(frame(first.hello()))
            assert "proof" in first.hear()
        odd.say(frame(odd.hello(**changed)))
        assert "proof" in odd.hear()
        assert expected in odd.hear()["failed"]
        assert expected in str(zero.exception())
        first.leave()
        odd.leave()


def test_a_node_that_talks_rubbish_once_it_is_in_ends_it(token: str) -> None:
    def work(peers: Peers) -> None:
        if peers.index == 1:
            peers._loop.call_soon_threadsafe(peers._writer.write, frame({"report": ["x"]}))
        peers.exchange({})

    assert "node 1 (n1) sent something" in one_message(together(token, 2, work))


# --- strangers ---


def test_who_does_not_know_the_secret_is_refused(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(rendezvous.SECRET, "hush")

    def work(peers: Peers) -> int:
        if peers.index == 1:
            stranger = Visitor(token)  # knows all but the secret
            stranger.say(frame(stranger.hello(node=0)))
            assert rendezvous.SECRET in stranger.hear()["refused"]
            stranger.leave()
        return count_reports(peers)

    assert together(token, 2, work) == [2, 2]


def test_a_proof_is_of_one_key_one_role_and_one_nonce() -> None:
    proof = rendezvous._proof("a", "node", "1")
    assert rendezvous._proves(proof, "a", "node", "1")
    others = (("b", "node", "1"), ("a", "leader", "1"), ("a", "node", "2"))
    assert not any(rendezvous._proves(proof, *other) for other in others)
    assert not rendezvous._proves(None, "a", "node", "1")
    assert not rendezvous._proves("é", "a", "node", "1")


@contextmanager
def taken(port: int, answer: bytes = b"") -> Iterator[None]:
    """A port that is somebody else's, who says something to everyone, and hangs up."""
    with socket.create_server(("", port)) as other:
        stopped = threading.Event()

        def serve() -> None:
            while True:
                connection, _ = other.accept()
                with connection:
                    if stopped.is_set():
                        return
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        frame({"nonce": "0"}) + frame({"proof": "0" * 64}),
        frame({"nonce": "0"}) + frame({"failed": "a stranger says so"}),
    ],
    ids=["hangs up", "ssh", "false proof", "failure without proof"],
)
def test_a_port_that_is_taken_is_passed_over(token: str, answer: bytes) -> None:
    with taken(candidate_ports(token)[0], answer):
        assert together(token, 3, count_reports) == [3, 3, 3]


def test_who_says_nothing_is_given_up(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_HELLO_SECONDS", 0.5)

    def work(peers: Peers) -> int:
        if peers.index == 1:
            stranger = Visitor(token)
            assert stranger.hear().keys() == {"nonce"}
            assert stranger.hear() == {}
            stranger.leave()
        return count_reports(peers)

    assert together(token, 2, work) == [2, 2]


def test_two_jobs_that_try_the_same_ports_do_not_mix(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = candidate_ports(token)
    monkeypatch.setattr(rendezvous, "candidate_ports", lambda other: ports)
    both = threading.Barrier(6)

    def work(peers: Peers, job: str) -> Any:
        both.wait(LONG)  # both are running at the same time
        return list(peers.exchange({"job": job}))

    with ThreadPoolExecutor(2) as pool:
        runs = {
            job: pool.submit(together, f"{token}{job}", 3, lambda peers, job=job: work(peers, job))
            for job in ("a", "b")
        }
        assert {job: run.result() for job, run in runs.items()} == {
            job: [[{"job": job}] * 3] * 3 for job in ("a", "b")
        }


def test_no_free_port_is_said(token: str) -> None:
    port = candidate_ports(token)[0]
    with taken(port), pytest.raises(StagingError, match=f"node 0 cannot listen on port {port}: "):
        meet(placed(0, 2), token, address=f"127.0.0.1:{port}", seconds=LONG)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 4097) + b" " * 4097,
        frame({"pad": "x" * 5000}),
        frame({"report": {}}),
        frame({"failed": "x"}),
    ],
    ids=["http", "long", "long once unpacked", "report", "failed"],
)
def test_strangers_are_dropped_and_harm_nobody(token: str, garbage: bytes) -> None:
    def work(peers: Peers) -> int:
        if peers.index == 1:
            stranger = Visitor(token)
            stranger.say(garbage)
            assert stranger.hear().keys() == {"nonce"}
            assert stranger.hear().keys() <= {"refused"}
            stranger.leave()
        return count_reports(peers)

    assert together(token, 2, work) == [2, 2]


def received(data: bytes, longest: int) -> Any:
    async def read() -> Any:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await receive(reader, longest)

    return asyncio.run(read())


def test_a_message_is_read_up_to_its_bound() -> None:
    message = {"reports": [{"pad": "x" * 1000}] * 2}
    whole = len(json.dumps(message, separators=(",", ":")))
    assert len(frame(message)) < whole / 10
    assert received(frame(message), whole) == message
    with pytest.raises(ValueError, match=f"more than {whole - 1} bytes"):
        received(frame(message), whole - 1)
    with pytest.raises(EOFError):
        received(frame(message)[:-1], whole)


@pytest.mark.parametrize(
    "packed",
    [
        zlib.compress(b" " * 5000),
        zlib.compress(b'{"a":1}')[:-1],
        zlib.compress(b'{"a":1}')[:-4] + b"sums",
        zlib.compress(b"[" * 4000),
        zlib.compress(b"[1]"),
        b"\xff" * 9,
    ],
    ids=["too large", "cut off", "wrong checksum", "nested", "list", "rubbish"],
)
def test_a_message_that_is_none_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        received(struct.pack(">I", len(packed)) + packed, 4096)


_NODE = """
import sys, time
from dataprep.errors import StagingError
from dataprep.staging.copying import Watch
from dataprep.staging.placement import Placement
from dataprep.staging.rendezvous import meet
node, nodes, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
place = Placement(f"n{node}", node, nodes, 0, None, None, "localhost", "test")
watch = Watch()
try:
    with meet(place, token, seconds=60, on_failure=watch.stop) as peers:
        peers.exchange({})
        print("here", flush=True)
        while True:
            watch.check()
            time.sleep(0.01)
except StagingError as error:
    print(error)
"""


@pytest.mark.parametrize("victim", [0, 2], ids=["node 0", "another"])
def test_a_node_that_is_killed_is_lost_to_all_the_others_at_once(token: str, victim: int) -> None:
    nodes = [
        subprocess.Popen(
            [sys.executable, "-c", _NODE, str(node), "3", token],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(3)
    ]
    try:
        for node in nodes:
            assert node.stdout is not None
            assert node.stdout.readline() == "here\n"
        nodes[victim].send_signal(signal.SIGKILL)
        told = {node.communicate(timeout=LONG)[0] for node in nodes if node is not nodes[victim]}
    finally:
        for node in nodes:
            node.kill()
            node.communicate()
    (message,) = told
    name = "localhost" if victim == 0 else f"n{victim}"
    assert message.startswith(f"node {victim} ({name}) is lost: its connection ended")
    assert message.count("\n") == 1


# --- addresses, ports, limits ---


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("n0:4711", ("n0", 4711)),
        ("n0.site.org", ("n0.site.org", None)),
        ("10.0.0.1:80", ("10.0.0.1", 80)),
        ("[fe80::1]:4711", ("fe80::1", 4711)),
        ("[fe80::1]", ("fe80::1", None)),
    ],
)
def test_addresses_are_understood(address: str, place: tuple[str, int | None]) -> None:
    assert parse_address(address) == place


@pytest.mark.parametrize("address", ["", ":", ":80", "n0:0", "n0:65536", "n0:x", "n0/x", "a::1"])
def test_addresses_that_are_none_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--rendezvous"):
        meet(placed(0, 2), "token", address=address)


def test_without_a_leader_or_an_address_the_way_out_is_named() -> None:
    with pytest.raises(UsageError, match=r"where node 0 of 2 is \(asked: Slurm\).*--rendezvous"):
        meet(placed(0, 2, leader=None), "token")


def test_candidate_ports_are_the_same_everywhere_and_others_in_other_jobs() -> None:
    # Pinned: processes of different versions of Python must agree.
    assert candidate_ports("slurm-1")[:3] == (26810, 21936, 30691)
    ports = candidate_ports("slurm-2")
    assert all(20_000 <= port < 32_768 for port in ports)
    assert ports != candidate_ports("slurm-1")


def test_the_limit_on_open_files_is_raised_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(64, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: limits.append(limit))
    rendezvous._allow_files(1024)
    rendezvous._allow_files(32)
    assert limits == [(64, 4096), (1024, 4096), (1024, 4096)]
    with pytest.raises(StagingError, match=r"may have 4096 files .* needs 5000.*ulimit"):
        rendezvous._allow_files(5000)
