"""Nodes that meet over real sockets: threads, processes, strangers, and all that can go wrong."""

from __future__ import annotations

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
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dataprep.errors import NoRoomError, StagingError, UsageError
from dataprep.staging.nodes import rendezvous, rendezvous_client, rendezvous_server
from dataprep.staging.nodes.peers import Peers
from dataprep.staging.nodes.placement import Placement
from dataprep.staging.nodes.rendezvous import meet
from dataprep.staging.nodes.rendezvous_protocol import (
    HEADER,
    candidate_ports,
    frame,
    parse,
    proof,
    proves,
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
        try:
            socket.create_server(("", candidate_ports(token)[0])).close()
        except OSError:
            continue
        return token


Work = Callable[[Peers], Any]


def together(
    token: str,
    nodes: int,
    work: Work,
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


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_every_node_gets_every_report_in_order_again_and_again(token: str) -> None:
    def work(peers: Peers) -> Any:
        first = peers.exchange({"node": peers.index, "text": "é\n"})
        peers._board.check()
        return [first, peers.exchange({"again": peers.index})]

    results = together(token, 5, work)
    expected = [[{"node": k, "text": "é\n"} for k in range(5)], [{"again": k} for k in range(5)]]
    assert results == [expected] * 5


def test_one_node_needs_no_network() -> None:
    with meet(placed(0, 1, leader=None), "token") as peers:
        assert list(peers.exchange({"a": 1})) == [{"a": 1}]


def test_200_nodes_meet(token: str) -> None:
    results = together(token, 200, lambda peers: len(peers.exchange({"pad": "x" * 3000})))
    assert results == [200] * 200


def test_the_longest_report_arrives_and_a_longer_one_is_refused(token: str) -> None:
    def work(peers: Peers) -> Any:
        with pytest.raises(ValueError, match="a report of"):
            peers.exchange({"pad": "x" * (1 << 20)})
        return [len(report["pad"]) for report in peers.exchange({"pad": "x" * 1_048_000})]

    assert together(token, 3, work) == [[1_048_000] * 3] * 3


def test_nodes_may_leave_one_after_the_other_and_nobody_is_lost(token: str) -> None:
    failures: list[StagingError] = []
    turns = [threading.Event() for _ in range(5)]
    turns[0].set()

    def work(peers: Peers) -> None:
        peers.exchange({})
        # Node 0 leaves first; it stays in the background for the others.
        assert turns[peers.index].wait(LONG)
        peers._board.check()
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


def test_who_comes_after_a_failure_is_told_of_it(token: str) -> None:
    def work(peers: Peers) -> None:
        if peers.index == 1:
            peers._line.send({"failed": "first"})
            until(lambda: peers._board.failed)
        if peers.index == 0:
            until(lambda: peers._board.failed)
            with pytest.raises(StagingError, match=r"^node 1 \(n1\) failed: first$"):
                meet(placed(3, 4), token, seconds=LONG)

    assert together(token, 3, work) == [None] * 3


def test_a_node_may_come_late(token: str) -> None:
    with ThreadPoolExecutor(3) as pool:

        def one(node: int) -> int:
            with meet(placed(node, 3), token, seconds=LONG) as peers:
                return len(peers.exchange({}))

        # Node 1 finds nobody listening yet; node 0 waits for node 2.
        first = pool.submit(one, 1)
        time.sleep(0.1)
        second = pool.submit(one, 0)
        time.sleep(0.1)
        third = pool.submit(one, 2)
        assert [first.result(), second.result(), third.result()] == [3, 3, 3]


def test_nodes_that_do_not_come_are_named_everywhere(token: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(meet, placed(0, 4), token, seconds=0.5)
        other = pool.submit(meet, placed(2, 4), token, seconds=LONG)
        message = one_message([one.exception(), other.exception()])
    assert "nodes 1, 3 of 4 did not come to node 0 (n0) within 0.5 s" in message
    assert "srun -K" in message


def test_a_node_0_that_does_not_come_is_named_with_its_place(token: str) -> None:
    with pytest.raises(StagingError, match=r"node 1 \(n1\) did not find node 0 at 127.0.0.1 .*16"):
        meet(placed(1, 2), token, seconds=0.2)


def test_a_name_that_is_not_resolved_is_named(token: str) -> None:
    with pytest.raises(StagingError, match=r"at nx* .* its name is not resolved"):
        meet(placed(1, 2, leader=_NO_NAME), token, seconds=0.2)


def test_a_domain_that_is_not_known_is_left_out(token: str) -> None:
    leader = f"localhost.{_NO_NAME}"
    assert together(token, 2, lambda peers: peers.count, leader=leader) == [2, 2]


def test_the_failure_of_one_node_reaches_all_the_others_while_they_work(token: str) -> None:
    heard: list[str] = []

    def work(peers: Peers) -> None:
        peers.exchange({})
        if peers.index == 2:
            raise StagingError("disk full\nreally")
        while True:
            peers._board.check()
            time.sleep(0.005)

    results = together(token, 4, work, on_failure=lambda error: heard.append(str(error)))
    assert str(results.pop(2)) == "disk full\nreally"
    assert one_message(results) == "node 2 (n2) failed: disk full really"
    assert heard == ["node 2 (n2) failed: disk full really"] * 3  # the one that failed knows


@pytest.mark.parametrize("node", [0, 1], ids=["node 0", "another"])
def test_the_failure_of_one_node_ends_the_waiting_of_all_the_others(token: str, node: int) -> None:
    def work(peers: Peers) -> None:
        if peers.index == node:
            raise KeyError
        peers.exchange({})

    results = together(token, 3, work)
    assert isinstance(results.pop(node), KeyError)
    assert one_message(results) == f"node {node} (n{node}) failed: KeyError"


@pytest.mark.parametrize("node", [0, 1], ids=["node 0", "another"])
def test_a_defect_in_the_background_ends_the_waiting_too(token: str, node: int) -> None:
    def work(peers: Peers) -> None:
        if peers.index == node:
            loop = peers._line._loop
            loop.call(lambda: 1 // 0)
            loop.join(LONG)
            with pytest.raises(StagingError, match="ZeroDivisionError"):
                peers._board.check()
        peers.exchange({})

    results = together(token, 3, work)
    assert "ZeroDivisionError" in str(results.pop(node))
    assert f"node {node} (" in one_message(results)
    assert "is lost" in one_message(results)


def test_too_little_room_keeps_its_exit_code(token: str) -> None:
    def work(peers: Peers) -> None:
        if peers.index == 1:
            raise NoRoomError("42 GB needed")
        peers.exchange({})

    assert [result.exit_code for result in together(token, 3, work)] == [4, 4, 4]


def test_a_failure_that_comes_with_the_reports_does_not_hide_them(token: str) -> None:
    def work(peers: Peers) -> Any:
        if peers.index == 1:
            peers.exchange({})
            raise StagingError("later")
        if peers.index == 2:
            # Sent, but looked for only once the failure has come too.
            peers._line.send({"report": {}})
            until(lambda: peers._board.failed)
            return len(peers._board.next_reports(LONG))
        return len(peers.exchange({}))

    assert together(token, 3, work)[2] == 3


def test_a_node_that_leaves_early_is_named(token: str) -> None:
    def work(peers: Peers) -> None:
        if peers.index != 1:
            peers.exchange({})

    results = together(token, 3, work)
    assert results.pop(1) is None
    assert "node 1 (n1) left while others" in one_message(results)


def test_a_node_that_hangs_is_named(token: str) -> None:
    answered = threading.Event()

    def work(peers: Peers) -> None:
        if peers.index == 2:
            assert answered.wait(LONG)
            peers._board.check()
        try:
            peers.exchange({})
        finally:
            answered.set()

    message = one_message(together(token, 3, work, patience=0.2))
    assert "node 2 (n2) of 3 did not report within" in message


def test_two_nodes_with_the_same_index_are_both_named(token: str) -> None:
    twin = replace(placed(1, 3), host="twin")
    with ThreadPoolExecutor(3) as pool:
        zero = pool.submit(meet, placed(0, 3), token, seconds=LONG)
        one = pool.submit(meet, placed(1, 3), token, seconds=LONG)
        other = pool.submit(meet, twin, token, seconds=LONG)
        message = one_message([each.exception() for each in (zero, one, other)])
    assert "both say that they are node 1" in message
    assert "n1" in message
    assert "twin" in message


def test_a_second_process_of_a_node_that_comes_when_all_are_there_is_refused(token: str) -> None:
    def work(peers: Peers) -> None:
        peers.exchange({})
        if peers.index == 0:
            with pytest.raises(StagingError, match="n1 and twin both say that they are node 1"):
                meet(replace(placed(1, 2), host="twin"), token, seconds=LONG)
        until(lambda: peers._board.failed)
        with pytest.raises(StagingError, match="n1 and twin"):
            peers._board.check()

    assert together(token, 2, work) == [None, None]


@pytest.mark.parametrize(
    ("node", "nodes", "expected"),
    [
        (1, 3, "m says that there are 3 nodes, node 0 (n0) that there are 2"),
        (2, 2, "m says that it is node 2 of 2"),
        (0, 2, "n0 and m both say that they are node 0"),
        ([], 2, "m says that it is node [] of 2"),
        ("1", 2, "m says that it is node 1 of 2"),
    ],
)
def test_a_node_that_contradicts_the_others_ends_it(
    token: str, node: Any, nodes: int, expected: str
) -> None:
    # Not `meet`: a second node 0 would listen itself.
    odd = replace(placed(0, nodes), node=node, host="m")
    with ThreadPoolExecutor(1) as pool:
        zero = pool.submit(meet, placed(0, 2), token, seconds=LONG)
        with socket.create_connection(("127.0.0.1", listening(token))) as connection:
            hello = {"hello": proof(token, "node"), "node": odd.node, "of": nodes, "host": "m"}
            connection.sendall(frame(hello))
            answer = connection.makefile("rb").read()
        assert expected in str(zero.exception())
        assert expected.encode() in answer


def listening(token: str, place: int = 0) -> int:
    """The port of a node 0, once it listens."""
    port = candidate_ports(token)[place]

    def there() -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0

    until(there)
    return port


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
                    connection.recv(4096)
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
        b"\0\0\0\x02{}",
        b"\0\0\0\x04null",
        b"\0\0\0\x01\xff",
        frame({"welcome": proof("another", "leader")}),
        b"\0\0\xff\xff" + b"[" * 0xFFFF,
    ],
    ids=["hangs up", "ssh", "empty", "null", "binary", "another token", "nested"],
)
def test_a_port_that_is_taken_is_passed_over(token: str, answer: bytes) -> None:
    with taken(candidate_ports(token)[0], answer):
        assert together(token, 3, lambda peers: len(peers.exchange({}))) == [3, 3, 3]


def test_who_says_nothing_is_given_up(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous_client, "_ANSWER_SECONDS", 0.1)
    with socket.create_server(("", candidate_ports(token)[0])):
        assert together(token, 2, lambda peers: len(peers.exchange({}))) == [2, 2]


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
        b"\xff" * 9000,
        struct.pack(">I", 4097) + b" " * 4097,
        struct.pack(">I", 3) + b"[1]",
        frame({"hello": "0" * 64, "node": 1, "of": 2, "host": "x"}),
        frame({"hello": None}),
        frame({"hello": "é"}),
        frame({"report": {}}),
        frame({"failed": "x"}),
    ],
    ids=["http", "binary", "long", "list", "token", "no token", "text", "report", "failed"],
)
def test_strangers_are_dropped_and_harm_nobody(token: str, garbage: bytes) -> None:
    def work(peers: Peers) -> int:
        if peers.index == 1:
            with socket.create_connection(("127.0.0.1", listening(token)), LONG) as stranger:
                stranger.sendall(garbage)
                stranger.shutdown(socket.SHUT_WR)
                with stranger.makefile("rb") as answers:
                    assert b"welcome" not in _drained(answers)
        return len(peers.exchange({}))

    assert together(token, 2, work) == [2, 2]


def _drained(answers: Any) -> bytes:
    try:
        return answers.read()
    except ConnectionResetError:  # dropped with some of it unread
        return b""


def test_a_stranger_that_says_nothing_is_dropped_too(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous_server, "_HELLO_SECONDS", 0.1)

    def work(peers: Peers) -> int:
        if peers.index == 1:
            with socket.create_connection(("127.0.0.1", listening(token)), LONG) as stranger:
                assert stranger.recv(1) == b""
        return len(peers.exchange({}))

    assert together(token, 2, work) == [2, 2]


def test_a_node_that_is_welcome_may_be_slow_to_come_in(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous_server, "_HELLO_SECONDS", 0.1)
    with ThreadPoolExecutor(1) as pool:
        zero = pool.submit(meet, placed(0, 2), token, seconds=LONG)
        there = ("127.0.0.1", listening(token))
        with socket.create_connection(there, LONG) as slow, slow.makefile("rb") as answers:
            slow.sendall(frame({"hello": proof(token, "node"), "node": 1, "of": 2, "host": "n1"}))
            welcome = frame({"welcome": proof(token, "leader")})
            assert answers.read(len(welcome)) == welcome
            # Who came later and says nothing has been dropped meanwhile.
            with socket.create_connection(there, LONG) as stranger:
                assert stranger.recv(1) == b""
            slow.sendall(frame({"here": True}) + frame({"bye": True}))
            assert answers.read().endswith(frame({"bye": True}))
        with zero.result() as peers:
            peers._board.check()


def test_a_stranger_that_announces_much_is_dropped_before_it_sends_it(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous_server, "_HELLO_SECONDS", 1000)

    def work(peers: Peers) -> int:
        if peers.index == 1:
            with socket.create_connection(("127.0.0.1", listening(token)), LONG) as stranger:
                stranger.sendall(struct.pack(">I", 4097))
                assert stranger.recv(1) == b""
        return len(peers.exchange({}))

    assert together(token, 2, work) == [2, 2]


def test_a_crowd_of_strangers_is_turned_away(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous_server, "_STRANGERS", 2)
    monkeypatch.setattr(rendezvous_server, "_HELLO_SECONDS", 1000)

    def work(peers: Peers) -> int:
        if peers.index == 1:
            port = listening(token)
            crowd = [socket.create_connection(("127.0.0.1", port), LONG) for _ in range(8)]
            assert crowd[-1].recv(1) == b""
            for stranger in crowd:
                stranger.close()
        return len(peers.exchange({}))

    assert together(token, 2, work) == [2, 2]


def test_a_node_that_talks_rubbish_once_it_is_in_ends_it(token: str) -> None:
    def work(peers: Peers) -> None:
        if peers.index == 1:
            peers._line.send({"report": ["no", "object"]})
        # Sent by both, maybe before they have heard of it; the round must not be completed.
        peers._line.send({"report": {}})
        until(lambda: peers._board.failed)
        peers.exchange({})

    assert "node 1 (n1) sent something" in one_message(together(token, 2, work))


_REPORTS = frame({"reports": [{"pad": "x" * 1000}] * 2}, packed=True)[HEADER.size :]


def test_what_goes_to_all_is_compressed_and_read_up_to_its_bound() -> None:
    reports = {"reports": [{"pad": "x" * 1000}] * 2}
    whole = len(frame(reports)) - HEADER.size
    assert len(_REPORTS) < whole / 10
    assert parse(_REPORTS, whole) == reports
    with pytest.raises(ValueError, match=f"more than {whole - 1} bytes once unpacked"):
        parse(_REPORTS, whole - 1)
    with pytest.raises(ValueError, match="can't decode"):
        parse(_REPORTS)


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (zlib.compress(b" " * ((2 << 20) + 1)), "more than 2097152 bytes once unpacked"),
        (_REPORTS[:-1], "broken compression: it does not end where"),
        (_REPORTS + b"{}", "broken compression: it does not end where"),
        (_REPORTS[:-4] + b"sums", "broken compression: Error"),
        (_REPORTS[:2] + b"\xff" * 9, "broken compression: Error"),
    ],
    ids=["too large", "cut off", "more behind it", "wrong checksum", "rubbish"],
)
def test_reports_that_are_too_large_or_broken_once_unpacked_are_refused(
    token: str, packed: bytes, why: str
) -> None:
    def work(peers: Peers) -> None:
        if peers.index == 0:
            data = HEADER.pack(len(packed)) + packed
            peers._line._loop.call(lambda: peers._line._members[1].send(data))
            until(lambda: peers._board.failed)
        peers.exchange({})

    at_node_0, at_node_1 = together(token, 2, work)
    assert one_message([at_node_0]).startswith("node 1 (n1) is lost")
    message = one_message([at_node_1])
    assert message.startswith(f"node 0 (127.0.0.1) is lost: it sends what is not understood ({why}")


def test_node_0_takes_nothing_compressed(token: str) -> None:
    def work(peers: Peers) -> None:
        if peers.index == 1:
            data = frame({"report": {}}, packed=True)
            peers._line._loop.call(lambda: peers._line._channel.send(data))
            until(lambda: peers._board.failed)
        peers.exchange({})

    message = one_message(together(token, 3, work)[::2])
    assert message.startswith("node 1 (n1) is lost: it sends what is not understood (")


_NODE = """
import sys, time
from dataprep.errors import StagingError
from dataprep.staging.copying.streams import Watch
from dataprep.staging.nodes.placement import Placement
from dataprep.staging.nodes.rendezvous import meet
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
            [sys.executable, "-c", _NODE, str(node), "3", token], stdout=subprocess.PIPE, text=True
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


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("n0:4711", ("n0", (4711,))),
        ("n0.site.org", ("n0.site.org", None)),
        ("10.0.0.1:80", ("10.0.0.1", (80,))),
        ("[fe80::1]:4711", ("fe80::1", (4711,))),
        ("[fe80::1]", ("fe80::1", None)),
        ("fe80::1", ("fe80::1", None)),
    ],
)
def test_addresses_are_understood(address: str, place: tuple[str, tuple[int] | None]) -> None:
    host, ports = rendezvous._meeting_place(placed(0, 2), "token", address)
    assert (host, ports) == (place[0], place[1] or candidate_ports("token"))


@pytest.mark.parametrize("address", ["", ":", ":80", "n0:", "n0:0", "n0:65536", "n0:x", "n0:²"])
def test_addresses_that_are_none_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="--rendezvous"):
        meet(placed(0, 2), "token", address=address)


def test_without_a_leader_or_an_address_the_way_out_is_named() -> None:
    with pytest.raises(UsageError, match=r"where node 0 of 2 is \(asked: Slurm\).*--rendezvous"):
        meet(placed(0, 2, leader=None), "token")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_an_address_that_is_given_is_used(token: str, host: str) -> None:
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    port = candidate_ports(token)[3]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    results = together(token, 2, lambda peers: peers.count, leader=None, address=address)
    assert results == [2, 2]


def test_candidate_ports_are_the_same_everywhere_and_others_in_other_jobs() -> None:
    # Pinned: processes of different versions of Python must agree.
    assert candidate_ports("slurm-1")[:3] == (29128, 23481, 27250)
    ports = candidate_ports("slurm-2")
    assert len(set(ports)) == 16
    assert all(20_000 <= port < 32_768 for port in ports)
    assert ports != candidate_ports("slurm-1")


def test_a_proof_is_of_one_token_and_one_role() -> None:
    assert proves(proof("a", "node"), "a", "node")
    assert not proves(proof("a", "node"), "a", "leader")
    assert not proves(proof("a", "node"), "b", "node")
    assert not proves("a", "a", "node")


def test_the_limit_on_open_files_is_raised_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(64, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: limits.append(limit))
    rendezvous._allow_files(32)
    rendezvous._allow_files(1024)
    assert limits == [(64, 4096), (1024, 4096)]
    with pytest.raises(StagingError, match=r"may have 4096 files .* needs 5000.*ulimit"):
        rendezvous._allow_files(5000)
