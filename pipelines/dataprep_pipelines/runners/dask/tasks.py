"""A Beam graph of single elements as Dask tasks, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import dask
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.dask.overrides import dask_overrides

Task = Any
"""One of Dask's: callable, with a ``key``."""

_AT_ONCE = 1000  # elements whose tasks exist at a time; each takes some kilobytes


def tasks_of(pipeline: beam.Pipeline, visitor: Callable[[Any], Any]) -> Iterator[Task]:
    """A task an element, in their order, with everything that the graph does to it.

    Args:
        pipeline: elements that are there from the start, and what is done to each by itself.
        visitor: makes Beam's translator, given options of Dask's bags.
    """
    pipeline.replace_all(dask_overrides())
    source = _source(pipeline)
    values = list(source.values)
    for start in range(0, len(values), _AT_ONCE):
        source.values = values[start : start + _AT_ONCE]
        translated = visitor({"partition_size": 1})
        pipeline.visit(translated)
        (bag,) = dask.optimize(list(translated.bags.values())[-1])
        graph = dict(bag.__dask_graph__())
        for key in bag.__dask_keys__():
            task = graph[key]
            while hasattr(task, "target"):  # only another name of a task
                task = graph[task.target]
            yield task


def _source(pipeline: beam.Pipeline) -> Any:
    """What creates the elements."""
    finder = _Sources()
    pipeline.visit(finder)
    (source,) = finder.found
    return source


class _Sources(PipelineVisitor):  # type: ignore[misc]  # Beam ships no types
    def __init__(self) -> None:
        self.found: list[Any] = []

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        if hasattr(transform_node.transform, "values"):
            self.found.append(transform_node.transform)
