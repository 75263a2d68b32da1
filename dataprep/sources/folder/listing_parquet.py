"""A Parquet listing, read a slice of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from dataprep.errors import SourceError
from dataprep.sources.folder.listing_formats import Values
from dataprep.wording import printable, unreadable

_ROWS: Final = 200_000
"""Rows of a piece; as rows of the index some 120 MB."""

_BATCH: Final = 16_384


class ParquetListing:
    """A listing of one row a record; see `dataprep.sources.folder.listing_file.ListingFile`.

    Args:
        path: the file.
        rows: how many rows a piece has at most.

    Raises:
        SourceError: it is unreadable, damaged or no Parquet file.
    """

    def __init__(self, path: Path, rows: int = _ROWS) -> None:
        self.name = printable(path.name)
        self._path = path
        self._rows = rows
        with self._open() as file:
            self.columns: Sequence[str] = list(file.schema_arrow.names)
            metadata = file.metadata
            self._groups = [
                int(metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)
            ]

    def end(self) -> int:
        """The number of rows."""
        return sum(self._groups)

    def pieces(self) -> list[tuple[int, int]]:
        """Ranges of rows; none of them is in two row groups."""
        pieces = []
        for _, first, last in self._spans():
            for start in range(first, last, self._rows):
                pieces.append((start, min(start + self._rows, last)))
        return pieces

    def records(self, start: int, stop: int, wanted: Sequence[str]) -> Iterator[tuple[int, Values]]:
        """See `ListingFile.records`; of a row group, what comes before the piece is skipped."""
        with self._open() as file:
            for group, first, last in self._spans():
                if first < stop and start < last:
                    for at, batch in self._batches(file, group, first, wanted):
                        if at >= stop:
                            break
                        skip = max(0, start - at)
                        kept = batch.slice(skip, max(0, min(stop - at, len(batch)) - skip))
                        yield from enumerate(_tuples(kept), at + skip)

    def records_at(
        self, positions: Iterable[int], wanted: Sequence[str]
    ) -> Iterator[tuple[int, Values]]:
        """See `ListingFile.records_at`; row groups without any of the rows are not read."""
        asked = iter(positions)
        rows = list(islice(asked, _ROWS))
        while rows:
            with self._open() as file:
                yield from self._take(file, rows, wanted)
            rows = list(islice(asked, _ROWS))

    def place(self, position: int) -> str:
        """The number of a row, from 1."""
        return f"{self.name}, row {position + 1}"

    def _take(
        self, file: Any, rows: Sequence[int], wanted: Sequence[str]
    ) -> Iterator[tuple[int, Values]]:
        done = 0
        for group, first, last in self._spans():
            if done == len(rows) or not first <= rows[done] < last:
                continue
            for at, batch in self._batches(file, group, first, wanted):
                begin = done
                while done < len(rows) and rows[done] < at + len(batch):
                    done += 1
                taken = [row - at for row in rows[begin:done]]
                if taken:
                    yield from zip(rows[begin:done], _tuples(batch.take(taken)), strict=True)
                if done == len(rows) or rows[done] >= last:
                    break

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        """Each row group's number, first row and one past its last."""
        first = 0
        for group, count in enumerate(self._groups):
            yield group, first, first + count
            first += count

    def _batches(
        self, file: Any, group: int, first: int, wanted: Sequence[str]
    ) -> Iterator[tuple[int, Any]]:
        """The batches of a row group, each with the number of its first row."""
        at = first
        for batch in file.iter_batches(
            batch_size=_BATCH, row_groups=[group], columns=list(wanted), use_threads=False
        ):
            # In the order in which they are wanted, whatever that of this version of pyarrow is.
            yield at, batch.select(list(wanted))
            at += len(batch)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        # Not at the top: a tenth of a second that other formats need not pay.
        from pyarrow import ArrowException, parquet

        try:
            with parquet.ParquetFile(self._path) as file:
                yield file
        except (ArrowException, UnicodeDecodeError, OSError) as error:
            # What the system refuses has a number; what pyarrow cannot unpack has none.
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(str(self._path), error) from error
            reason = printable(str(error).splitlines()[0]) if str(error) else type(error).__name__
            raise SourceError(
                f"{self.name} is damaged or not a Parquet file: {reason}; write it again, or say "
                "with --listing_format what it is"
            ) from error


def _tuples(batch: Any) -> Iterator[Values]:
    """The rows of a batch."""
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)
