"""The files of /proc and /sys that a lab host shows below its root, made from the host's state alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lab_nics
from lab_state import nvme_of

# Where `write_files` keeps the paths that it wrote, one per line: what a later state no longer has must vanish.
WRITTEN = "files"


def files_of(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each file by its path below the host's root: ``{"proc/meminfo": "MemTotal: ..."}``."""
    return {**memory(state), **nvme(state), **lab_nics.files(state)}


def write_files(directory: Path, state: Mapping[str, Any]) -> None:
    """Make ``directory``/root show exactly the files of ``state``, beside those that the host itself wrote there."""
    root, written = directory / "root", directory / WRITTEN
    files = files_of(state)
    before = written.read_text(encoding="utf-8").split("\n") if written.exists() else []
    # Named before they are written: a run that is killed half way leaves nothing that nobody knows of.
    write(written, "\n".join(sorted({*files, *before} - {""})))
    for path in set(before) - set(files) - {""}:
        (root / path).unlink(missing_ok=True)
        _prune(root, (root / path).parent)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        write(root / path, text)
    write(written, "\n".join(sorted(files)))


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file in one step, so that a tool on the host never reads half of it."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.chmod(mode)
    unfinished.rename(path)


def _prune(root: Path, directory: Path) -> None:
    """Remove the directories that a removed file leaves empty: a device that is gone has none in sysfs."""
    while directory != root and directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def memory(state: Mapping[str, Any]) -> dict[str, str]:
    """Return /proc/meminfo, in the layout of Linux 5.15 on a machine with 1 GiB pages."""
    total = int(state["memory_mib"]) * 1024
    fields = {
        "MemTotal": total,
        "MemFree": total * 97 // 100,
        "MemAvailable": total * 98 // 100,
        "Buffers": 24696,
        "Cached": 1810640,
        "SwapCached": 0,
        "Active": 912344,
        "Inactive": 1402112,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Dirty": 112,
        "Writeback": 0,
        "Shmem": 20480,
        "Slab": 1204224,
        "SReclaimable": 402112,
        "SUnreclaim": 802112,
        "KernelStack": 32448,
        "PageTables": 20160,
        "CommitLimit": total // 2,
        "Committed_AS": 2204224,
        "VmallocTotal": 34359738367,
        "VmallocUsed": 1204224,
        "HardwareCorrupted": 0,
        "AnonHugePages": 0,
        "HugePages_Total": None,
        "HugePages_Free": None,
        "HugePages_Rsvd": None,
        "HugePages_Surp": None,
        "Hugepagesize": 2048,
        "Hugetlb": 0,
        "DirectMap4k": 804224,
        "DirectMap2M": 24204224,
    }
    lines = [f"{name + ':':16}{0:8d}" if kib is None else f"{name + ':':16}{kib:8d} kB" for name, kib in fields.items()]
    return {"proc/meminfo": "\n".join(lines) + "\n"}


def nvme(state: Mapping[str, Any]) -> dict[str, str]:
    """Return what Linux shows of each NVMe drive below /sys/class/nvme."""
    files = {}
    for number, drive in nvme_of(state).items():
        shown = {
            "address": drive["address"],
            "firmware_rev": "GDC7302Q",
            "model": "SAMSUNG MZWLR3T8HCLS-00A07",
            "serial": drive["serial"],
            "state": "live",
            "transport": "pcie",
            "device/current_link_speed": "16.0 GT/s PCIe",
            "device/current_link_width": "4",
            f"{drive['controller']}n1/size": "7501476528",
            **state["nvme_files"].get(number, {}),
        }
        files |= {f"sys/class/nvme/{drive['controller']}/{name}": f"{text}\n" for name, text in shown.items()}
    return files
