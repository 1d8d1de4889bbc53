"""The kernel's log of a machine with eight GPUs, which journalctl and dmesg show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lab_tool

BOOT_ID = lab_tool.PLACE / "root" / "proc" / "sys" / "kernel" / "random" / "boot_id"


def booted() -> float:
    """Return when the host started, in seconds since 1970."""
    # The boot id is written when user space starts: a server's firmware and kernel have taken their time by then.
    return (BOOT_ID if BOOT_ID.exists() else lab_tool.PLACE / "state.json").stat().st_mtime - 40


def boot_log(state: dict[str, Any]) -> Iterator[tuple[float, str]]:
    """Yield seconds since boot and message of an ordinary start."""
    cpus = state["cpu"]["cores"] * 2
    yield 0.0, f"Linux version {state['kernel']} (buildd@lab) (gcc 11.4.0, GNU ld 2.38) #64-Ubuntu SMP"
    yield 0.0, f"Command line: BOOT_IMAGE=/boot/vmlinuz-{state['kernel']} root=/dev/md0 ro iommu=pt"
    yield 0.1, f"Memory: {state['memory_mib'] * 1000}K/{state['memory_mib'] * 1024}K available"
    yield 0.9, f"smpboot: Allowing {cpus} CPUs, 0 hotplug CPUs"
    yield 1.8, "ACPI: PCI Interrupt Link [LNKA] configured for IRQ 11"
    yield 3.2, "mlx5_core 0000:19:00.0: firmware version: 28.39.1002"
    yield 3.9, "EXT4-fs (md0): mounted filesystem with ordered data mode. Opts: (null)"
    yield 7.5, "nvidia-nvlink: Nvlink Core is being initialized, major device number 510"
    yield 8.1, f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {state['driver']}  Release Build"
    for gpu in state["gpus"]:
        yield 8.2, f"nvidia {gpu['address']}: enabling device (0140 -> 0142)"
    yield 14.6, "nvidia-uvm: Loaded the UVM driver, major device number 508."


def entries_of(state: dict[str, Any], start: float) -> Iterator[tuple[float, str]]:
    """Yield time and message of each line, oldest first."""
    for seconds, message in boot_log(state):
        yield start + seconds, message
    # A fault that is still there after a reboot shows itself again.
    earliest = start + 30
    for line in state["kernel_log"]:
        known = isinstance(line, dict)
        yield max(earliest, line["seconds"] if known else 0), line["message"] if known else line
