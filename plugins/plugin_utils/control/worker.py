"""The life of Ansible's workers: the processes in which tasks run.

Each has a session of its own, so nothing that ends the control process ends them: nobody would hear of what they do
then, and one that had something to say would wait for ever.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

# prctl(2)
_PR_SET_PDEATHSIG = 1


def end_workers_with_the_run() -> None:
    """Have every worker that this process starts from now on killed when this process dies, whatever task it does."""
    control, tied = os.getpid(), False

    def tie() -> None:
        nonlocal tied
        # What a worker starts is its own.
        if not tied:
            tied = True
            _die_with(control)

    os.register_at_fork(after_in_child=tie)


def end_with_the_run() -> None:
    """Have this worker killed when the control process dies; nothing happens in a process that is no worker."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        _die_with(parent.pid)


def _die_with(parent: int) -> None:
    """Have this process killed when its parent dies; without prctl(2) it finishes its work."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # It may have died before.
    if os.getppid() != parent:
        os._exit(1)
