"""A parallel map that keeps the order and holds only a few results at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    executor: Executor, function: Callable[[Item], Result], items: Iterable[Item], window: int
) -> Iterator[Result]:
    """Apply a function to items in an executor.

    ``Executor.map`` would take in all items at once and hold every result that the
    consumer has not come to, which is the whole data set when the disk is slow.

    Args:
        executor: where it runs.
        function: what to apply.
        items: what to; consumed as results are.
        window: how many items may be started and not yet consumed.

    Yields:
        The results, in the order of the items.
    """
    pending: deque[Future[Result]] = deque()
    for item in items:
        pending.append(executor.submit(function, item))
        if len(pending) >= window:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
