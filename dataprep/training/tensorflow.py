"""The examples of a data set for TensorFlow; imports it, so only ``to_tf`` imports this."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf  # type: ignore[import-not-found,import-untyped,unused-ignore]

if TYPE_CHECKING:
    from dataprep.training.sampler import Sampler
    from dataprep.training.source import Source


def batches(examples: Source, sampler: Sampler) -> Any:
    """A `tf.data.Dataset` of batches: encoded images, shape (batch,), and their labels.

    The numbers come from the sampler, and the bytes are read by several threads of TensorFlow's.
    """
    labels = examples.labels
    shape = labels.shape[1:]

    def numbers() -> Iterator[list[int]]:
        return iter(sampler)

    def read(chosen: Any) -> tuple[Any, Any]:
        found = examples.encoded(chosen.tolist())
        return np.array(found, object), labels[chosen]

    def batch(chosen: Any) -> tuple[Any, Any]:
        encoded, found = tf.numpy_function(read, [chosen], (tf.string, tf.int64))
        encoded.set_shape((None,))
        found.set_shape((None, *shape))
        return encoded, found

    chosen = tf.data.Dataset.from_generator(
        numbers, output_signature=tf.TensorSpec((None,), tf.int64)
    )
    return chosen.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(
        tf.data.AUTOTUNE
    )
