"""One thread for each numeric library: here, processes and threads of our own use the cores.

OpenBLAS, for one, starts a thread for every core of the machine as soon as numpy is imported: 128
of them in every one of 32 processes, of which none has anything to do.
"""

from __future__ import annotations

from collections.abc import MutableMapping

_GENERAL = "OMP_NUM_THREADS"
_OWN = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def one_thread_each(environ: MutableMapping[str, str]) -> None:
    """Let numeric libraries of this process's children, and its own later imports, use one thread.

    What the user set stays. All of these libraries take OMP_NUM_THREADS where their own variable is
    not set, so whoever has set that has set them all.

    Args:
        environ: the environment, which is changed.
    """
    if environ.get(_GENERAL) and not _is_of_pbs(environ):
        return
    environ[_GENERAL] = "1"
    for name in _OWN:
        environ.setdefault(name, "1")


def _is_of_pbs(environ: MutableMapping[str, str]) -> bool:
    """PBS sets OMP_NUM_THREADS in every job, to the same as NCPUS: nobody asked for it."""
    return bool(environ.get("PBS_JOBID")) and environ.get("NCPUS") == environ[_GENERAL]
