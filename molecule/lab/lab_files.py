"""The files of /proc and /sys that a lab host shows below its root, made from the host's state alone."""

from __future__ import annotations

import filecmp
import os
import shutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import lab_nics
import lab_roce
from lab_gpus import processors_of
from lab_state import nvme_of

# Where `write_files` keeps the paths that it wrote, one per line, each with a checksum of the text after a tab. What a
# later state no longer has must vanish, and what it shows no other text for is left to the roles.
WRITTEN = "files"


def files_of(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each file by its path below the host's root: ``{"proc/meminfo": "MemTotal: ..."}``.

    A symbolic link has where it leads to, a path below the root too, as a ``Link``.
    """
    return {
        **memory(state),
        **cpus(state),
        **numa(state),
        **edac(state),
        **kernel(state),
        **nvme(state),
        **gpu_nodes(state),
        **fabric_manager_log(state),
        **pcie_errors(state),
        **lab_nics.files(state),
        **lab_roce.files(state),
    }


def write_files(directory: Path, state: Mapping[str, Any]) -> None:
    """Make ``directory``/root show exactly the files of ``state``, beside those that the host itself wrote there."""
    root, written = directory / "root", directory / WRITTEN
    files = files_of(state)
    sums = {path: f"{zlib.crc32(text.encode()):08x}" for path, text in files.items()}
    before = _read_written(written)
    # Named before they are written, with the sums that they had: a run that is killed half way leaves nothing that
    # nobody knows of, and nothing that counts as written but is not.
    _write_written(written, {**sums, **before})
    for path in set(before) - set(files):
        (root / path).unlink(missing_ok=True)
        _prune(root, (root / path).parent)
    for parent in {(root / path).parent for path in files}:
        parent.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        if isinstance(text, lab_nics.Link):
            _link(root / path, root / text)
            continue
        # What a role has set stays set when another fault is laid over the host, as on a real one.
        if is_setting(path) and before.get(path) == sums[path] and (root / path).exists():
            continue
        # What a test makes grow, it makes grow as the unprivileged user that it runs as.
        write(root / path, text, 0o666 if "/hw_counters/" in path or path.startswith("ethtool/") else 0o644)
    _write_written(written, sums)


def is_setting(path: str) -> bool:
    """Return whether a role sets the file: it is written as after the boot, and again when the state changes it."""
    return lab_roce.is_setting(path) or path.endswith("/cpufreq/scaling_governor")


def _read_written(file: Path) -> dict[str, str]:
    """Return the sums by path; empty ones in the file of an older checkout, which kept none."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return dict(line.partition("\t")[::2] for line in lines)


def _write_written(file: Path, sums: Mapping[str, str]) -> None:
    write(file, "".join(f"{path}\t{text}\n" for path, text in sorted(sums.items())))


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file in one step, so that a tool on the host never reads half of it; one that is right is left alone."""
    with suppress(OSError):
        if path.read_bytes() == text.encode() and path.stat().st_mode & 0o777 == mode:
            return
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.chmod(mode)
    unfinished.rename(path)


def copy(source: Path, target: Path) -> None:
    """Copy a file in one step, mode and all; one that is right is left alone."""
    if target.exists() and filecmp.cmp(source, target):
        return
    shutil.copy2(source, target.with_name(target.name + ".new"))
    target.with_name(target.name + ".new").rename(target)


def _link(path: Path, target: Path) -> None:
    """Make a symbolic link that holds wherever the root is mounted; one that is right is left alone."""
    relative = os.path.relpath(target, path.parent)
    if not (path.is_symlink() and str(path.readlink()) == relative):
        path.unlink(missing_ok=True)
        path.symlink_to(relative)


def _prune(root: Path, directory: Path) -> None:
    """Remove the directories that a removed file leaves empty: a device that is gone has none in sysfs."""
    while directory != root and directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
        directory = directory.parent


def memory(state: Mapping[str, Any]) -> dict[str, str]:
    """Return /proc/meminfo, in the layout of Linux 5.15 on a machine with 1 GiB pages."""
    total = sum(node_mib(state)) * 1024
    swap = int(state["swap_mib"]) * 1024
    fields = {
        "MemTotal": total,
        "MemFree": total * 97 // 100,
        "MemAvailable": total * 98 // 100,
        "Buffers": 24696,
        "Cached": 1810640,
        "SwapCached": 0,
        "Active": 912344,
        "Inactive": 1402112,
        "SwapTotal": swap,
        "SwapFree": swap,
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
        "Hugepagesize": 2048,
        "DirectMap4k": 804224,
        "DirectMap2M": 24204224,
    }
    files = {"proc/meminfo": "".join(f"{name + ':':16}{kib:8d} kB\n" for name, kib in fields.items())}
    place = "sys/kernel/mm"
    for size in (2048, 1048576):
        files[f"{place}/hugepages/hugepages-{size}kB/nr_hugepages"] = f"{state['hugepages'].get(str(size), 0)}\n"
    modes = ("always", "madvise", "never")
    chosen = " ".join(f"[{mode}]" if mode == state["transparent_hugepage"] else mode for mode in modes)
    files[f"{place}/transparent_hugepage/enabled"] = f"{chosen}\n"
    return files


def node_count(state: Mapping[str, Any]) -> int:
    """Return the number of NUMA nodes."""
    return 1 if state["numa_off"] else int(state["numa_nodes"] or state["cpu"]["sockets"])


def node_mib(state: Mapping[str, Any]) -> list[int]:
    """Return the memory of each NUMA node: its share, less the modules that are missing there."""
    count, slots = node_count(state), [dimm["slot"] for dimm in state["dimms"]]
    shares = [int(state["memory_mib"]) // count] * count
    shares[0] += int(state["memory_mib"]) - sum(shares)
    for index, dimm in enumerate(state["dimms"]):
        if dimm["slot"] in state["dimms_missing"]:
            shares[index * count // len(slots)] -= dimm["size_mib"]
    return shares


def cpus(state: Mapping[str, Any]) -> dict[str, str]:
    """Return /proc/cpuinfo and the governors: two threads a core, the second ones counted after all the first."""
    sockets, cores = int(state["cpu"]["sockets"]), int(state["cpu"]["cores"])
    files, blocks = {}, []
    for number in range(2 * cores):
        core = number % cores
        fields = {
            "processor": number,
            "vendor_id": "GenuineIntel",
            "cpu family": 6,
            "model": 143,
            "model name": "Intel(R) Xeon(R) Platinum 8468",
            "stepping": 8,
            "microcode": state["cpu_microcode"].get(str(number), "0x2b000603"),
            "cpu MHz": "3100.000",
            "physical id": core * sockets // cores,
            "siblings": 2 * cores // sockets,
            "core id": core % (cores // sockets),
            "cpu cores": cores // sockets,
            "flags": "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat",
        }
        blocks.append("".join(_field(name, value) for name, value in fields.items()) + "power management:\n\n")
        place = f"sys/devices/system/cpu/cpu{number}/cpufreq"
        files[f"{place}/scaling_governor"] = f"{state['cpu_governor']}\n"
        files[f"{place}/scaling_available_governors"] = "performance schedutil\n"
    return {**files, "proc/cpuinfo": "".join(blocks)}


def _field(name: str, value: object) -> str:
    # The kernel fills up to sixteen columns with tabs.
    return f"{name}{chr(9) * (2 - len(name) // 8)}: {value}\n"


def numa(state: Mapping[str, Any]) -> dict[str, str]:
    """Return CPUs and memory of each NUMA node."""
    shares = node_mib(state)
    files = {}
    for node, mib in enumerate(shares):
        place = f"sys/devices/system/node/node{node}"
        files[f"{place}/cpulist"] = f"{processors_of(state, node, len(shares))}\n"
        # Sockets are 21 apart, as on a host of two Xeon processors.
        distances = (10 if other == node else 21 for other in range(len(shares)))
        files[f"{place}/distance"] = f"{' '.join(map(str, distances))}\n"
        fields = {"MemTotal": mib * 1024, "MemFree": mib * 1024 * 97 // 100, "MemUsed": mib * 1024 * 3 // 100}
        files[f"{place}/meminfo"] = "".join(f"Node {node} {name + ':':15}{kib:9d} kB\n" for name, kib in fields.items())
    return files


def edac(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the error counts of four memory controllers for each socket, as the i10nm driver shows them."""
    files: dict[str, str] = {}
    controllers, slots = 4 * int(state["cpu"]["sockets"]), len(state["dimms"])
    totals = {number: {"ce": 0, "ue": 0} for number in range(controllers)}
    for index, dimm in enumerate(state["dimms"]):
        controller, position = index * controllers // slots, index * controllers % slots // controllers
        if dimm["slot"] in state["dimms_missing"]:
            continue
        errors = state["dimm_errors"].get(dimm["slot"], {})
        counts = {"ce": int(errors.get("correctable", 0)), "ue": int(errors.get("uncorrectable", 0))}
        place = f"sys/devices/system/edac/mc/mc{controller}/dimm{position}"
        files[f"{place}/dimm_label"] = f"{dimm['slot']}\n"
        for kind, count in counts.items():
            files[f"{place}/dimm_{kind}_count"] = f"{count}\n"
            totals[controller][kind] += count
    for controller, counts in totals.items():
        for kind, count in counts.items():
            files[f"sys/devices/system/edac/mc/mc{controller}/{kind}_count"] = f"{count}\n"
    return files


def kernel(state: Mapping[str, Any]) -> dict[str, str]:
    """Return how the kernel was started, how it is started next (grub-mkconfig 2.06), and which clock it reads."""
    line = state["kernel_command_line"]
    return {
        "proc/cmdline": f"{line}\n",
        "boot/grub/grub.cfg": (
            'set default="0"\n'
            "menuentry 'Debian GNU/Linux' --class debian --class gnu-linux --class gnu --class os {\n"
            "\tload_video\n"
            "\tinsmod gzio\n"
            f"\tlinux\t{line.removeprefix('BOOT_IMAGE=')}\n"
            "\tinitrd\t/boot/initrd.img\n"
            "}\n"
        ),
        "sys/devices/system/clocksource/clocksource0/current_clocksource": f"{state['clocksource']}\n",
    }


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


def gpu_nodes(state: Mapping[str, Any]) -> dict[str, str]:
    """Return what Linux and the driver show of each GPU below /sys and /proc; one that is lost reads as all ones."""
    files = {}
    for gpu in state["gpus"]:
        if gpu["slot"] in state["gpus_missing"]:
            continue
        lost = gpu["slot"] in state["gpus_lost"]
        shown = {
            "vendor": "0xffff" if lost else "0x10de",
            "class": "0x030200",
            "current_link_speed": "Unknown" if lost else "32.0 GT/s PCIe",
            "current_link_width": "63" if lost else "16",
            **state["gpu_files"].get(gpu["slot"], {}),
        }
        files |= {f"sys/bus/pci/devices/{gpu['address']}/{name}": f"{text}\n" for name, text in shown.items()}
        files[f"proc/driver/nvidia/gpus/{gpu['address']}/information"] = (
            f"Model: \t\t NVIDIA H100 80GB HBM3\n"
            f"GPU UUID: \t {gpu['uuid']}\n"
            f"Video BIOS: \t 96.00.89.00.01\n"
            f"Bus Type: \t PCIe\n"
            f"Bus Location: \t {gpu['address']}\n"
            f"GPU Excluded:\t No\n"
        )
    return files


def fabric_manager_log(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the fabric manager's log: an error before its last start, the start, and what the state adds."""
    version = state["fabric_manager"]["version"] or state["driver"]
    lines = [
        "[Nov 19 2026 06:01:46] [ERROR] [tid 2210] failed to find the GPU handle 5410063385821516767 in the multicast "
        "team request setup 6130285411925746235.",
        f"[Nov 20 2026 06:02:10] [INFO] [tid 2393] Fabric Manager version {version} is running with the following "
        "configuration options",
        "[Nov 20 2026 06:02:10] [INFO] [tid 2393] Logging level = 4",
        "[Nov 20 2026 06:02:10] [INFO] [tid 2393] Abort CUDA jobs when FM exits = 1",
        "[Nov 20 2026 06:02:14] [INFO] [tid 2393] Successfully configured all the available NVSwitches to route GPU "
        "NVLink traffic. NVLink Peer-to-Peer support will be enabled once the GPUs are successfully registered with "
        "the NVLink fabric.",
        "[Nov 20 2026 06:20:31] [INFO] [tid 2401] Received an inband message:  Message header details: magic Id:adbc "
        "request Id:1fdba18d7da4ef9e status:0 type:4 length:14",
        "Message payload details:Team release request: Team Handle:99c9f23d49236386 Flags:0",
        "",
        "[Nov 20 2026 06:20:31] [INFO] [tid 2406] multicast group 0 is freed.",
        *(f"[Nov 20 2026 07:00:00] {line}" for line in state["fabric_manager_log"]),
    ]
    return {"var/log/fabricmanager.log": "".join(f"{line}\n" for line in lines)}


_CORRECTABLE = "RxErr BadTLP BadDLLP Rollover Timeout NonFatalErr CorrIntErr HeaderOF"
_UNCORRECTABLE = (
    "Undefined DLP SDES TLP FCP CmpltTO CmpltAbrt UnxCmplt RxOF MalfTLP ECRC UnsupReq ACSViol UncorrIntErr BlockedTLP "
    "AtomicOpBlocked TLPBlockedErr PoisonTLPBlocked"
)


def pcie_errors(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the kernel's counts of PCIe errors of each GPU, NIC and drive; none of a device that is not there."""
    gone = {*state["gpus_missing"], *state["nics_missing"]}
    places = {
        f"sys/bus/pci/devices/{gpu['address']}": gpu["address"] for gpu in state["gpus"] if gpu["slot"] not in gone
    }
    for nic in state["nics"]:
        if nic["rail"] not in gone:
            places[lab_nics.pci_device(nic)] = nic["address"]
    for drive in nvme_of(state).values():
        places[f"sys/class/nvme/{drive['controller']}/device"] = drive["address"]
    files = {}
    for place, address in places.items():
        for severity, total, kinds in (
            ("correctable", "COR", _CORRECTABLE),
            ("nonfatal", "NONFATAL", _UNCORRECTABLE),
            ("fatal", "FATAL", _UNCORRECTABLE),
        ):
            counted = state["pcie_errors"].get(address, {}).get(severity, {})
            counts = {kind: int(counted.get(kind, 0)) for kind in kinds.split()}
            lines = [f"{kind} {count}\n" for kind, count in counts.items()]
            files[f"{place}/aer_dev_{severity}"] = "".join([*lines, f"TOTAL_ERR_{total} {sum(counts.values())}\n"])
    return files
