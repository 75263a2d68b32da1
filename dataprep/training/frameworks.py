"""Memory for batches, of NumPy, PyTorch or JAX, used again when nobody has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Framework = Literal["torch", "numpy", "jax"]


def required(package: str) -> Any:
    """A framework's module, which no dependency of ours brings.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        instead = 'use records.loader with framework="numpy", which needs none'
        raise ImportError(f"{error}: install it, or {instead}") from error


class _Lent:
    """Memory that goes back to where it came from when no array uses it any more."""

    def __init__(self, memory: NDArray[np.uint8], idle: list[NDArray[np.uint8]]) -> None:
        # An array of it keeps this object, as does an array of that, and a tensor made of either.
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._idle = memory, idle

    def __del__(self) -> None:
        self._idle.append(self._memory)


class _Numpy:
    """Memory for batches of one shape, and what becomes of it."""

    layout = "arrays of shape ({}, {}, {}, {})"
    channels_first = False

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._idle: list[NDArray[np.uint8]] = []

    def new(self) -> tuple[NDArray[np.uint8], Callable[[int], Any]]:
        """Room for a batch, and what gives so many of its images when it is full."""
        array = self._array()
        return array, lambda count: array[:count]

    def of_labels(self, labels: NDArray[np.int64]) -> Any:
        """Labels, likewise."""
        return labels

    def _array(self) -> NDArray[np.uint8]:
        memory = self._idle.pop() if self._idle else np.empty(self._shape, np.uint8)
        return np.asarray(_Lent(memory, self._idle))


class _Torch(_Numpy):
    layout = "tensors of shape ({0}, {3}, {1}, {2}), strides torch.channels_last"
    channels_first = True

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self._torch = required("torch")
        self._pinned = self._torch.cuda.is_available()

    def new(self) -> tuple[NDArray[np.uint8], Callable[[int], Any]]:
        """Channels last in memory, as a view with the channels first."""
        if self._pinned:  # PyTorch knows when what is copied without blocking may be used again
            whole = self._torch.empty(self._shape, dtype=self._torch.uint8, pin_memory=True)
        else:
            whole = self._torch.from_numpy(self._array())
        return whole.numpy(), lambda count: whole[:count].permute(0, 3, 1, 2)

    def of_labels(self, labels: NDArray[np.int64]) -> Any:
        """A tensor."""
        return self._torch.from_numpy(labels)


class _Jax(_Numpy):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self._jax = required("jax.numpy")

    def new(self) -> tuple[NDArray[np.uint8], Callable[[int], Any]]:
        """Copied: a device's memory is its own."""
        array = self._array()
        return array, lambda count: self._jax.array(array[:count])

    def of_labels(self, labels: NDArray[np.int64]) -> Any:
        """An array of JAX."""
        return self._jax.array(labels)


MEMORY: Final[Mapping[Framework, type[_Numpy]]] = {"torch": _Torch, "numpy": _Numpy, "jax": _Jax}
"""Memory for batches of one shape, by framework."""
