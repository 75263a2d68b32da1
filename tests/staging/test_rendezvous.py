"""Nodes that meet over real sockets: threads, processes, strangers, and all that can go wrong."""

from __future__ import annotations

import os
import pickle
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dataprep.errors import NoRoomError, StagingError, UsageError
from dataprep.staging import agreement, handshake
from dataprep.staging.agreement import Agreed, Failed, Hello, NodeStart, Peers
from dataprep.staging.handshake import SECRET, receive
from dataprep.staging.placement import Placement
from dataprep.staging.rendezvous import connected, parse_address, port_of
from dataprep.staging.request import StageRequest

LONG = 20.0  # seconds; a bound for tests in which nothing is to time out


def placed(node: int, nodes: int) -> Placement:
    return Placement(
        host=f"n{node}",
        node=node,
        nodes=nodes,
        local_rank=0,
        job="slurm-1",
        step="slurm-1.0",
        leader="127.0.0.1",
        origin="Slurm",
    )


def meet(
    placement: Placement,
    token: str,
    *,
    address: str | None = None,
    seconds: float = LONG,
    on_failure: Callable[[StagingError], None] = lambda _: None,
    line: Callable[[str], None] = lambda _: None,
) -> Peers:
    """Meet for a source of this name."""
    request = StageRequest(Path(token), rendezvous=address, rendezvous_seconds=seconds)
    reporter = SimpleNamespace(line=line)
    return connected(request, placement, on_failure, reporter).__enter__()  # type: ignore[arg-type]


def port(token: str) -> int:
    return port_of(f"slurm-1.0 {token} {os.getuid()}")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "hush")


@pytest.fixture
def token() -> str:
    """One whose port is free."""
    while True:
        token = secrets.token_hex(8)
        with suppress(OSError):
            socket.create_server(("", port(token))).close()
            return token


def together(token: str, nodes: int, work: Callable[[Peers], Any], **options: Any) -> list[Any]:
    """What ``work`` returned or raised on every node, each in a thread of its own."""

    def one(node: int) -> Any:
        try:
            with meet(placed(node, nodes), token, **options) as peers:
                return work(peers)
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            return error

    with ThreadPoolExecutor(nodes) as pool:
        return list(pool.map(one, range(nodes)))


def one_message(results: list[Any]) -> str:
    """What all nodes were told, if it was the same."""
    assert all(isinstance(result, StagingError) for result in results), results
    (message,) = {str(result) for result in results}
    assert "\n" not in message
    return message


def report(node: int, text: str = "") -> NodeStart:
    return NodeStart(f"n{node}", node, "d", "/to", 0, 0, text)


def counted(reports: Sequence[NodeStart]) -> Agreed:
    return Agreed(str(len(reports)))


def listed(reports: Sequence[NodeStart]) -> Agreed:
    return Agreed("|".join(f"{each.node} {each.options}" for each in reports))


def count_reports(peers: Peers) -> int:
    return int(peers.exchange(report(peers.index), counted).total)


# --- all goes well ---


def test_every_node_gets_what_follows_from_every_report_again_and_again(token: str) -> None:
    def work(peers: Peers) -> Any:
        first = peers.exchange(report(peers.index, "é\n"), listed)
        return [first.total, peers.exchange(report(peers.index, "again"), listed).total]

    results = together(token, 3, work)
    assert results == [["0 é\n|1 é\n|2 é\n", "0 again|1 again|2 again"]] * 3


def test_200_nodes_meet(token: str) -> None:
    def work(peers: Peers) -> Agreed:
        return peers.exchange(report(peers.index, "x" * 3000), counted)

    assert together(token, 200, work) == [Agreed("200")] * 200


def test_the_same_nodes_may_meet_again_at_once(token: str) -> None:
    def one(node: int) -> list[str]:
        rounds = []
        for turn in range(10):
            with meet(placed(node, 4), token) as peers:
                rounds.append(peers.exchange(report(0, str(turn)), listed).total)
        return rounds

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(one, range(4)))
    assert results == [["|".join([f"0 {turn}"] * 4) for turn in range(10)]] * 4


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_address_that_is_given_is_used(token: str, host: str) -> None:
    if host == "[::1]" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    address = f"{host}:{port(token)}"
    assert together(token, 2, count_reports, address=address) == [2, 2]


# --- nodes that do not come, fail, or contradict each other ---


def test_nodes_that_do_not_come_are_named_everywhere(token: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(meet, placed(0, 4), token, seconds=0.5)
        other = pool.submit(meet, placed(2, 4), token)
        both = [str(one.exception()), str(other.exception())]
    for message in both:
        assert "node 1, 3 of 4 did not come to node 0 within 0.5 s" in message
        assert "the same SRC" in message
        assert "srun -K" in message


def test_another_source_is_said_to_be_a_cause(token: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        zero = pool.submit(meet, placed(0, 2), token)
        visit(token, b"")  # it is there
        with pytest.raises(StagingError, match="answers, or one with another job, SRC, "):
            meet(placed(1, 2), f"{token} 2", address=f"127.0.0.1:{port(token)}", seconds=0.01)
        with meet(placed(1, 2), token), zero.result():
            pass


def test_a_node_0_that_is_not_found_is_named_with_its_place(token: str) -> None:
    why = r"within 0.2 s: port [0-9]+: .*refused"
    with pytest.raises(StagingError, match=rf"node 1 \(n1\) did not find node 0 at .*{why}"):
        meet(placed(1, 2), token, seconds=0.2)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(agreement, "NEXT_SECONDS", 0.1)


SINCE = r" since \d\d:\d\d:\d\d \(0 s\)"


@pytest.mark.usefixtures("impatient")
def test_nodes_that_do_not_come_are_named_while_they_are_waited_for(
    token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StagingError, match="did not come"):
        meet(placed(0, 3), token, seconds=0.4)
    lines = capsys.readouterr().err.splitlines()
    said = (
        rf"dataprep: waiting for node 1, 2 of 3 to come to node 0 \(n0\){SINCE}; giving up in 0 s"
    )
    assert 2 <= len(lines) <= 4
    assert all(re.fullmatch(said, line) for line in lines), lines


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("node", [2, 3])
def test_a_node_0_that_is_not_found_is_named_by_a_few_while_it_is_waited_for(
    token: str, capsys: pytest.CaptureFixture[str], node: int
) -> None:
    with pytest.raises(StagingError, match="did not find"):
        meet(placed(node, 4), token, seconds=0.4)
    who = rf"node 0, which node 2 \(n2\) does not find at 127\.0\.0\.1{SINCE}; giving up"
    assert bool(re.search(f"waiting for {who}", capsys.readouterr().err)) == (node == 2)


@pytest.mark.usefixtures("impatient")
def test_nodes_that_have_not_reported_are_named_while_they_are_waited_for(
    token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(peers: Peers) -> int:
        if peers.index == 1:
            time.sleep(0.2)
        return count_reports(peers)

    assert together(token, 3, work) == [3] * 3
    who = rf"dataprep: waiting for node 1 \(n1\) to report, of 3 nodes{SINCE}\n"
    assert re.search(who, capsys.readouterr().err)


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
        count_reports(peers)
        if peers.index == 2:
            raise kind("disk full\nreally")
        assert told.wait(LONG)
        count_reports(peers)

    results = together(token, 4, work, on_failure=on_failure)
    assert str(results.pop(2)) == "disk full\nreally"
    assert one_message(results) == "node 2 (n2) failed: disk full really"
    assert {type(error) for error in (*results, *heard)} == {kind}


@pytest.mark.parametrize("node", [0, 1], ids=["node 0", "another"])
def test_the_failure_of_one_node_ends_the_waiting_of_all_the_others(token: str, node: int) -> None:
    def work(peers: Peers) -> None:
        if peers.index == node:
            raise KeyError
        count_reports(peers)

    results = together(token, 3, work)
    assert isinstance(results.pop(node), KeyError)
    assert one_message(results) == f"node {node} (n{node}) failed: KeyError"


@pytest.mark.parametrize("kind", [StagingError, NoRoomError])
def test_a_conclusion_that_fails_fails_on_all_nodes_alike(
    token: str, kind: type[StagingError]
) -> None:
    def conclude(reports: Sequence[NodeStart]) -> Agreed:
        raise kind("node 2 is full")

    results = together(token, 3, lambda peers: peers.exchange(report(peers.index), conclude))
    assert one_message(results) == "node 2 is full"
    assert {type(error) for error in results} == {kind}


def test_two_processes_with_the_same_index_end_it(token: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(meet, placed(node, 3), token, seconds=5) for node in (0, 1, 1)]
        errors = [str(call.exception()) for call in calls]
    for error in errors:
        assert "node 1 (n1) and node 1 (n1) have the same index" in error


# --- strangers ---


def framed(data: bytes) -> bytes:
    """As the library sends it."""
    return len(data).to_bytes(4) + data


HELLO = msgspec.json.encode(Hello(1, "n1"))


def visit(token: str, say: bytes) -> bytes:
    """What node 0 answers to a stranger behind its challenge, until it hangs up."""
    deadline = time.monotonic() + LONG
    while True:
        try:
            place = ("127.0.0.1", port(token))
            with socket.create_connection(place, LONG) as connection:
                length = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
                assert len(connection.recv(length, socket.MSG_WAITALL)) == length
                connection.sendall(say)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while more := connection.recv(100):
                    answer += more
                return answer
        except ConnectionResetError:
            return b""
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        (1 << 16).to_bytes(4) + bytes(1 << 10),
        framed(bytes(16)) + framed(HELLO),
        framed(HELLO) * 3,
        framed(b"#WELCOME#") + framed(b"#CHALLENGE#" + bytes(20)),
    ],
    ids=["nothing", "http", "cut off", "a guess", "no proof", "of the library"],
)
def test_strangers_are_dropped_and_harm_nobody(token: str, garbage: bytes) -> None:
    with ThreadPoolExecutor(1) as pool:
        stranger = pool.submit(visit, token, garbage)

        def work(node: int) -> int:
            if node == 1:
                assert stranger.result() in (b"", framed(b"#FAILURE#"))
            with meet(placed(node, 2), token) as peers:
                return count_reports(peers)

        with ThreadPoolExecutor(2) as nodes:
            assert list(nodes.map(work, range(2))) == [2, 2]


def test_who_does_not_know_the_secret_is_not_let_in(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(1) as pool:
        zero = pool.submit(meet, placed(0, 2), token)
        visit(token, b"")  # it is there, with its key
        with monkeypatch.context() as stranger:
            stranger.setenv(SECRET, "guessed")
            with pytest.raises(StagingError, match=rf"secret \(this node goes by \${SECRET}\)"):
                meet(placed(1, 2), token, seconds=0.3)
        with meet(placed(1, 2), token), zero.result():  # who was waited for all the time
            pass


@pytest.mark.parametrize("say", [b"", b"\0", framed(b"x")[:-1]], ids=["nothing", "a byte", "less"])
def test_many_who_come_and_say_nothing_keep_nobody_out_for_long(
    token: str, monkeypatch: pytest.MonkeyPatch, say: bytes
) -> None:
    monkeypatch.setattr(handshake, "_STRANGERS", 4)
    monkeypatch.setattr(handshake, "_CROWDED_SECONDS", 0.01)
    monkeypatch.setattr(handshake, "_NEWCOMER_SECONDS", 10 * LONG)
    before = threading.active_count()
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        zero = pool.submit(meet, placed(0, 2), token)
        visit(token, b"")  # it is there
        place = ("127.0.0.1", port(token))
        silent = [stack.enter_context(socket.create_connection(place, LONG)) for _ in range(100)]
        for connection in silent:
            with suppress(OSError):  # it may have been let go
                connection.sendall(say)
        with meet(placed(1, 2), token), zero.result():
            for connection in silent:  # and all of them have been let go
                with suppress(ConnectionResetError):
                    while connection.recv(1000):
                        pass
            assert threading.active_count() <= before + 10


def test_who_says_nothing_is_let_go_though_nobody_else_comes(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "_NEWCOMER_SECONDS", 0.1)
    with ThreadPoolExecutor(1) as pool:
        zero = pool.submit(meet, placed(0, 2), token)
        visit(token, b"")  # it is there
        with socket.create_connection(("127.0.0.1", port(token)), LONG) as silent:
            while silent.recv(1000):
                pass
        with meet(placed(1, 2), token), zero.result():
            pass


def test_who_passes_on_from_another_port_what_nodes_say_is_passed_over(token: str) -> None:
    """Else it could hear, and change, what nodes tell each other."""

    def pass_on(source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(5000):
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(4) as pool:
        zero = pool.submit(meet, placed(0, 2), token)
        visit(token, b"")  # it is there
        elsewhere = f"127.0.0.1:{server.getsockname()[1]}"
        one = pool.submit(meet, placed(1, 2), token, address=elsewhere, seconds=0.01)
        other, _ = server.accept()
        with other, socket.create_connection(("127.0.0.1", port(token)), LONG) as real:
            both = [pool.submit(pass_on, real, other), pool.submit(pass_on, other, real)]
            assert "another program answers" in str(one.exception())
            for each in both:
                each.result()
        with meet(placed(1, 2), token), zero.result():  # who was waited for all the time
            pass


@contextmanager
def said(data: bytes) -> Iterator[Connection]:
    """A connection on which a node has said that, and has hung up."""
    ours, theirs = Pipe()
    with ours, theirs:
        theirs.send_bytes(data)
        theirs.close()
        yield ours


DEEP = msgspec.Raw(b"[" * 500 + b"]" * 500)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "hello", "node": [[[[1]]]], "host": "n3"},
        {"a": DEEP, "type": "hello", "node": 3, "host": "n3"},
        {"type": "hello", "node": 3, "host": "n3", "more": DEEP},
        Failed("x" * (1 << 16)),
        {"type": "hello", "node": 3},
        {"node": 3, "host": "n3"},
        [1],
    ],
    ids=["five deep", "500 deep", "more", "long", "too little", "no type", "no object"],
)
def test_what_a_node_says_is_bounded(message: object) -> None:
    with said(msgspec.json.encode(message)) as link, pytest.raises((ValueError, OSError)):
        receive(link)


def test_nothing_is_unpickled() -> None:
    with said(pickle.dumps(Hello(3, "n3"))) as link, pytest.raises(ValueError, match="no message"):
        receive(link)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n" + bytes(100),
        framed(b"#CHALLENGE#" + bytes(20)) + framed(b"#WELCOME#") + framed(bytes(16)),
        framed(msgspec.json.encode(Failed("x"))) * 2,
    ],
    ids=["hangs up", "ssh", "a guess", "a failure"],
)
def test_another_program_in_the_place_of_node_0_is_not_believed(token: str, answer: bytes) -> None:
    with socket.create_server(("", port(token))) as other, ThreadPoolExecutor(1) as pool:
        one = pool.submit(meet, placed(1, 2), token, seconds=0.01)
        connection, _ = other.accept()
        with connection:
            with suppress(OSError):  # it may have heard enough
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
            assert "did not find node 0" in str(one.exception())
        with pytest.raises(StagingError, match=f"node 0 cannot listen on port {port(token)}: "):
            meet(placed(0, 2), token)


def test_addresses_are_understood_or_refused() -> None:
    assert parse_address("n0.site.org:4711") == ("n0.site.org", 4711)
    assert parse_address("[fe80::1]:80") == ("fe80::1", 80)
    for address in ("", "n0", ":80", "n0:", "n0:0", "n0:65536", "n0:x"):
        with pytest.raises(UsageError, match="HOST:PORT"):
            parse_address(address)


def test_the_port_is_the_same_everywhere_and_another_one_in_other_jobs() -> None:
    assert 20_000 <= port_of("slurm-1") < 32_768
    assert port_of("slurm-2") != port_of("slurm-1") == 20574  # whatever the version of Python


# --- by what they know each other ---

FILE = Path(".config", "dataprep", "rendezvous")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, and no secret in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(SECRET, raising=False)
    return tmp_path


def met(token: str) -> set[str]:
    """What three nodes were told that meet."""
    told: list[str] = []
    assert together(token, 3, count_reports, line=told.append) == [3, 3, 3]
    return {*told}


def test_a_secret_in_the_environment_counts_and_need_not_be_told(
    token: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "hush")
    assert met(token) == set()
    assert not [*home.iterdir()]


def test_else_a_file_of_the_home_directory_is_made_and_told(token: str, home: Path) -> None:
    assert met(token) == {f"nodes know each other by {home / FILE}"}
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    assert (home / FILE).parent.stat().st_mode & 0o777 == 0o700
    before = (home / FILE).read_bytes()
    met(token)
    assert (home / FILE).read_bytes() == before


def test_a_file_that_others_may_read_or_that_is_none_is_refused(home: Path, token: str) -> None:
    def refused(match: str) -> None:
        with pytest.raises(StagingError, match=match):
            meet(placed(0, 2), token, seconds=0.1)

    refused("did not come")
    file = home / FILE
    file.chmod(0o640)
    refused(rf"{FILE} is not a file of yours alone.* export {SECRET}")
    file.rename(home / "elsewhere")
    (home / "elsewhere").chmod(0o600)
    file.symlink_to(home / "elsewhere")
    refused("cannot be read here")
    file.unlink()
    file.write_text("password\n")
    file.chmod(0o600)
    refused("64 hexadecimal digits; delete it")


def test_who_does_not_come_by_the_secret_is_told_why(token: str, home: Path) -> None:
    with pytest.raises(StagingError, match=r"rendezvous cannot be read here \(No such"):
        meet(placed(1, 2), token, seconds=0.1)
