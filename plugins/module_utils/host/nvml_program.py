"""What NVML says of an idle node's GPUs, as JSON: a program of its own, since a call into a sick driver may hang.

``python3 -IS -c SOURCE LIBRARY``; needs no other module. Prints ``{"busy": WHO}`` where a program has a GPU open, else
``{"gpus": [{"address": "00000000:0B:00.0", "ecc_uncorrected": 0, "remap_pending": 0, "remap_failure": 0,
"recovery": 0, "status": 0}, ...], "refused": []}``; what NVML does not tell is null. ``status`` is 15 where any call
said that the GPU is lost, 16 where one said that it has to be reset; ``refused`` are NVML's statuses for GPUs of which
it gives no handle or no address. Calls, structures and statuses: NVIDIA's nvml.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

# They keep the GPUs open as long as the host is up, and use none.
_DAEMONS = ("nvidia-persiste", "nv-hostengine", "nv-fabricmanage", "dcgm-exporter")
_DEVICE = re.compile(r"/dev/nvidia\d+")
_UNCORRECTED, _VOLATILE = 1, 0
_RECOVERY_ACTION = 230
# NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED: the first of them is the worse.
_SICK = (15, 16)


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("bus_id", ctypes.c_char * 32),
    )


class _FieldValue(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


def who_has_a_gpu(proc: str) -> str | None:
    """Return a program that has a GPU open (``python (pid 42)``), None if only NVIDIA's own daemons do.

    Raises PermissionError where not every program's files may be seen.
    """
    for process in Path(proc).iterdir():
        if not process.name.isdigit():
            continue
        # It may end, or close a file, while it is looked at.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if any(_is_gpu(file) for file in (process / "fd").iterdir()):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                if name not in _DAEMONS:
                    return f"{name} (pid {process.name})"
    return None


def _is_gpu(file: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return bool(_DEVICE.fullmatch(os.readlink(file)))  # noqa: PTH115 -- twice as fast, of thousands of files
    return False


def gpus_of(library: str) -> dict[str, list[Any]]:
    """Return what NVML tells of each GPU, and of those it refuses; raises OSError for what it cannot do at all."""
    nvml = ctypes.CDLL(library)
    _done(nvml.nvmlInit_v2(), "nvmlInit_v2")
    count = ctypes.c_uint()
    _done(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount_v2")
    found = [_gpu(nvml, index) for index in range(count.value)]
    return {
        "gpus": [gpu for gpu in found if isinstance(gpu, dict)],
        "refused": [status for status in found if isinstance(status, int)],
    }


def _gpu(nvml: Any, index: int) -> dict[str, Any] | int:
    """Return one GPU, or NVML's status where it gives no handle or no address."""
    handle, pci = ctypes.c_void_p(), _PciInfo()
    refused: int = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
    refused = refused or nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci))
    if refused:
        return refused
    errors, rows = ctypes.c_ulonglong(), [ctypes.c_uint() for _ in range(4)]
    no_errors = nvml.nvmlDeviceGetTotalEccErrors(
        handle, ctypes.c_int(_UNCORRECTED), ctypes.c_int(_VOLATILE), ctypes.byref(errors)
    )
    no_rows = nvml.nvmlDeviceGetRemappedRows(handle, *(ctypes.byref(row) for row in rows))
    recovery, no_recovery = _recovery(nvml, handle)
    return {
        "address": pci.bus_id.decode("ascii", "replace"),
        "ecc_uncorrected": None if no_errors else errors.value,
        "remap_pending": None if no_rows else rows[2].value,
        "remap_failure": None if no_rows else rows[3].value,
        "recovery": recovery,
        "status": next((status for status in _SICK if status in (no_errors, no_rows, no_recovery)), 0),
    }


def _recovery(nvml: Any, handle: ctypes.c_void_p) -> tuple[int | None, int]:
    """Return the action that the driver asks for, and NVML's status where it tells none."""
    value = _FieldValue(field=_RECOVERY_ACTION)
    failed: int = nvml.nvmlDeviceGetFieldValues(handle, ctypes.c_int(1), ctypes.byref(value))
    failed = failed or value.status
    # An unsigned int: the upper half of the union is not set.
    return None if failed else value.value & 0xFFFFFFFF, failed


def _done(status: int, what: str) -> None:
    if status:
        raise OSError(f"{what} returns {status}")


def main(library: str, proc: str = "/proc") -> None:
    """Print the answer."""
    busy = who_has_a_gpu(proc)
    print(json.dumps({"busy": busy} if busy else gpus_of(library)))


if __name__ == "__main__":
    main(*sys.argv[1:])
