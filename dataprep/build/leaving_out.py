"""What of a data set a format has no place for."""

from __future__ import annotations

from dataclasses import replace

from dataprep.sinks import DatasetInfo, Sink
from dataprep.system.messages import some_of


def left_out(info: DatasetInfo, sink: Sink) -> tuple[DatasetInfo, tuple[str, ...]]:
    """What is true of the examples once the format holds them.

    Args:
        info: what is true of them before.
        sink: the format.

    Returns:
        The same without what is lost, and a line for the user on each kind of it.
    """
    lines = []
    if info.boxes and not sink.keeps_boxes:
        info = replace(info, boxes=False)
        lines.append(_line(sink, "bounding boxes"))
    if info.attributes and not sink.keeps_attributes:
        lines.append(_line(sink, some_of([name for name, _ in info.attributes])))
        info = replace(info, attributes=())
    return info, tuple(lines)


def _line(sink: Sink, what: str) -> str:
    return f"sink {sink.name} has no place for {what}: they are left out"
