"""Apache Beam's own TFRecord source reads the shards; unlike TensorFlow it is always there."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from dataprep.formats import tf_example
from tests.interop.conftest import Built


def read_with_beam(pattern: str, expected: list[bytes]) -> None:
    """Let Beam read every record of the shards and compare them, in any order."""
    # Not Beam's default runner, which tries to download a binary; and no arguments of pytest's.
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as pipeline:
        assert_that(pipeline | beam.io.ReadFromTFRecord(pattern), equal_to(expected))


@pytest.mark.parametrize("split", ["train", "validation"])
def test_beam_reads_every_record_that_we_read(built: Built, split: str) -> None:
    records = built.records(split)
    ours = [b"".join(tf_example.encode(example, records.info)) for example in records]
    assert len(ours) == len(built.raw[split])
    read_with_beam(f"{built.data_dir(split)}/{split}-*", ours)
