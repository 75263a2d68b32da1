"""Work shared out to a pool, its results taken back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    pool: Executor | None,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    window: int,
) -> Iterator[Result]:
    """``map``, in order, with at most ``window`` calls submitted and not yet consumed."""
    if pool is None:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= window:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
