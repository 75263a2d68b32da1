"""The nodes of one job: what they tell each other before, while and after they copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from typing_extensions import Self

Report = Mapping[str, Any]  # JSON


class Peers(Protocol):
    """One copier's connection to those of the other nodes. A context manager.

    Left with an exception, it tells the other nodes that this one has failed, and why.
    """

    index: int  # of this node, 0-based
    count: int  # of nodes

    def exchange(self, report: Report) -> Sequence[Report]:
        """Give every node this one's report, and get all of theirs, by node index.

        Raises:
            StagingError: a node has failed, is lost, or did not come in time; its name and its
                reason are in the message.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class Alone:
    """A node that knows of no others, or cannot reach them."""

    def __init__(self, index: int = 0, count: int = 1) -> None:
        self.index = index
        self.count = count

    def exchange(self, report: Report) -> Sequence[Report]:
        """Only this node's."""
        return [report]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...
