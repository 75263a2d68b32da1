"""Option values that are small languages of their own."""

from __future__ import annotations

from dataprep.errors import UsageError


def shard_counts(text: str | None) -> dict[str, int] | None:
    """``train=1024,validation=128``, or one number for every split.

    Raises:
        UsageError: it is neither.
    """
    if text is None:
        return None
    from dataprep.build.request import EVERY_SPLIT

    if text.strip().isdecimal() and int(text) > 0:
        return {EVERY_SPLIT: int(text)}
    counts: dict[str, int] = {}
    for item in text.split(","):
        name, equals, count = item.strip().partition("=")
        if not equals or not count.isdecimal() or int(count) < 1 or name in counts:
            raise UsageError(
                f"--num_shards {text!r}: expected SPLIT=COUNT once a split, "
                "such as train=1024,validation=128, or one number for every split"
            )
        counts[name] = int(count)
    return counts
