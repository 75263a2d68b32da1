"""torchvision, as far as it can be had."""

from __future__ import annotations

import re
import sys

import pytest


def require_torchvision() -> None:
    """Import it, or skip the test.

    Its wheels fit PyTorch's builds for CUDA: beside another build its compiled operators are
    missing, and with them the import fails. What is used here is Python: so they are declared.
    """
    torch = pytest.importorskip("torch", reason="needs torch")
    library = torch.library.Library("torchvision", "FRAGMENT")
    for _ in range(20):
        try:
            import torchvision  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
        except ModuleNotFoundError:
            pytest.skip("needs torchvision")
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            library.define(f"{missing[1]}() -> ()")
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
        else:
            _KEPT.append(library)  # what it declares goes away with it
            return


_KEPT: list[object] = []


@pytest.fixture
def torchvision() -> None:
    """That it can be imported."""
    require_torchvision()
