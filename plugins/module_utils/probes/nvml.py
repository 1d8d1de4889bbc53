"""NVML's word on the GPUs of an idle node (nvml_program.py), asked in a process that can be given up.

Held against driver 580.159.04 on an H100.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations, pci_address

NAME = "nvml"
NOT_DECLARED = Output('{"busy": "not declared"}\n')
# The whole of health has 6 s.
TIMEOUT_SECONDS = 3.0
_FIELDS = ("ecc_uncorrected", "remap_pending", "remap_failure", "recovery", "status")
# nvmlReturn_t of nvml.h.
LOST, RESET_REQUIRED = 15, 16


@dataclass(frozen=True)
class NvmlGpu:
    """One GPU; what NVML did not tell is None. ``recovery`` is nvmlGpuRecoveryAction_t, 0 for none.

    ``status`` is LOST or RESET_REQUIRED where NVML said so in the place of any value, else 0.
    """

    ecc_uncorrected: int | None
    remap_pending: int | None
    remap_failure: int | None
    recovery: int | None
    status: int | None = 0


@dataclass(frozen=True)
class Nvml:
    """``busy``: who uses the GPUs, so that they were not asked ("" where they were).

    ``refused``: NVML's statuses for those GPUs of which it gives no handle, and so no address.
    """

    busy: str
    gpus: Mapping[str, NvmlGpu]
    refused: tuple[int, ...] = ()


def collect(host: Host, expect: Expectations) -> Output:
    """Ask the library that the class names."""
    if not expect.gpu or expect.gpu.nvml is None:
        return NOT_DECLARED
    # From wherever this package was imported, a directory or the archive that nodes run.
    spec = importlib.util.find_spec("..host.nvml_program", __package__)
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    return host.run(("/usr/bin/python3", "-IS", "-c", source or "", expect.gpu.nvml), TIMEOUT_SECONDS)


def parse(output: Output) -> Nvml:
    """Return the answer; raises Unreadable."""
    if output.rc != 0:
        said = (output.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unreadable(f"exit status {output.rc}: {said[:200]}")
    try:
        data = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {output.stdout[:60]!r}") from exc
    if isinstance(data, dict) and isinstance(data.get("busy"), str) and data["busy"] and len(data) == 1:
        return Nvml(data["busy"], {})
    gpus, refused = (data.get("gpus"), data.get("refused", [])) if isinstance(data, dict) else (None, None)
    if not isinstance(gpus, list) or not isinstance(refused, list):
        raise Unreadable(f"found {output.stdout[:60]!r}, expected busy or gpus")
    found: dict[str, NvmlGpu] = {}
    for gpu in gpus:
        address = pci_address(str(gpu.get("address"))) if isinstance(gpu, dict) else None
        if address is None or address in found:
            raise Unreadable(f"a GPU {str(gpu)[:60]!r}, expected one at a PCI address of its own")
        told = {"status": 0, **gpu}
        # The other fields are missed where they are no numbers; a driver before 565 has no recovery action.
        if (recovery := told.get("recovery")) is not None and _number(recovery) is None:
            raise Unreadable(f"GPU {address}: recovery is {str(recovery)[:60]!r}, expected a number or null")
        found[address] = NvmlGpu(*(_number(told.get(name)) for name in _FIELDS))
    return Nvml("", found, tuple(status for status in map(_number, refused) if status is not None))


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
