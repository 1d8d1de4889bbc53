"""The life of Ansible's workers: the processes in which tasks run."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

# prctl(2)
_PR_SET_PDEATHSIG = 1


def end_with_the_run() -> None:
    """Have this worker killed when the control process dies: nobody would hear of what it does then.

    Nothing happens in a process that is no worker, and on systems without prctl(2), where a worker finishes its task.
    """
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # It may have died before.
    if os.getppid() != parent.pid:
        os._exit(1)
