"""What ``nvidia-smi --query-gpu=... --format=csv`` prints, as people save it, read into the tree of ``nvidia-smi -q``.

Format: ``nvidia-smi --help-query-gpu`` of driver 590. The first line names the fields, some with a unit in brackets;
the cells repeat the unit unless ``nounits`` is asked for. A field that was not asked for is one that is not told.
"""

from __future__ import annotations

import csv
import re

from ..host.host import Unreadable
from .nvidia_smi_report import Node

_ADDRESSES = ("pci.bus_id", "gpu_bus_id")
_HEADER = re.compile(r"[a-z][A-Za-z0-9_.]*(?: \[[^\]]{1,8}\])?(?:, [a-z][A-Za-z0-9_.]*(?: \[[^\]]{1,8}\])?)+")
_ASKED = re.compile(r"\bnvidia-smi\b.* --query-gpu[= ]([\w.,]+)", re.ASCII)
_NO_HEADER = re.compile(r"--format[= ][\w,]*\bnoheader\b")
_LINK, _ECC, _ROWS, _PAGES = "pci/pci_gpu_link_info", "ecc_errors", "remapped_rows", "retired_pages"
_POWER, _THROTTLE = "gpu_power_readings", "clocks_event_reasons/clocks_event_reason"
# Where nvidia-smi -q -x tells the same.
_PLACES = {
    "name": "product_name",
    "gpu_name": "product_name",
    **{name: name for name in ("serial", "uuid", "vbios_version", "persistence_mode", "compute_mode")},
    "gpu_serial": "serial",
    "gpu_uuid": "uuid",
    "gpu_recovery_action": "gpu_recovery_action",
    "pstate": "performance_state",
    "pcie.link.gen.current": f"{_LINK}/pcie_gen/current_link_gen",
    "pcie.link.gen.max": f"{_LINK}/pcie_gen/max_link_gen",
    "pcie.link.gen.gpumax": f"{_LINK}/pcie_gen/max_device_link_gen",
    "pcie.link.width.current": f"{_LINK}/link_widths/current_link_width",
    "pcie.link.width.max": f"{_LINK}/link_widths/max_link_width",
    "memory.total": "fb_memory_usage/total",
    "memory.used": "fb_memory_usage/used",
    "utilization.gpu": "utilization/gpu_util",
    "ecc.mode.current": "ecc_mode/current_ecc",
    "ecc.mode.pending": "ecc_mode/pending_ecc",
    "mig.mode.current": "mig_mode/current_mig",
    "mig.mode.pending": "mig_mode/pending_mig",
    **{
        f"ecc.errors.{kind}ed.{life}.{memory}": f"{_ECC}/{life}/{memory}_{kind}able"
        for kind in ("correct", "uncorrect")
        for life in ("volatile", "aggregate")
        for memory in ("sram", "dram")
    },
    **{
        f"ecc.errors.uncorrected.{life}.sram.{kind}": f"{_ECC}/{life}/sram_uncorrectable_{kind}"
        for life in ("volatile", "aggregate")
        for kind in ("parity", "secded")
    },
    "ecc.errors.uncorrected.volatile.total": f"{_ECC}/volatile/uncorrectable_total",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": f"{_ECC}/aggregate/sram_threshold_exceeded",
    "remapped_rows.correctable": f"{_ROWS}/remapped_row_corr",
    "remapped_rows.uncorrectable": f"{_ROWS}/remapped_row_unc",
    "remapped_rows.pending": f"{_ROWS}/remapped_row_pending",
    "remapped_rows.failure": f"{_ROWS}/remapped_row_failure",
    "remapped_rows.histogram.none": f"{_ROWS}/row_remapper_histogram/row_remapper_histogram_none",
    "retired_pages.single_bit_ecc.count": f"{_PAGES}/multiple_single_bit_retirement/retired_count",
    "retired_pages.double_bit.count": f"{_PAGES}/double_bit_retirement/retired_count",
    "retired_pages.pending": f"{_PAGES}/pending_retirement",
    "temperature.gpu": "temperature/gpu_temp",
    "temperature.gpu.tlimit": "temperature/gpu_temp_tlimit",
    "temperature.memory": "temperature/memory_temp",
    "power.draw": f"{_POWER}/power_draw",
    "power.draw.average": f"{_POWER}/average_power_draw",
    "power.draw.instant": f"{_POWER}/instant_power_draw",
    "power.limit": f"{_POWER}/current_power_limit",
    "power.default_limit": f"{_POWER}/default_power_limit",
    "clocks.max.sm": "max_clocks/sm_clock",
    "clocks.applications.graphics": "applications_clocks/graphics_clock",
    "clocks.default_applications.graphics": "default_applications_clocks/graphics_clock",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "fabric.cliqueId": "fabric/cliqueid",
    "fabric.clusterUuid": "fabric/clusteruuid",
    **{
        f"{section}.{reason}": f"{_THROTTLE}_{place}"
        for section in ("clocks_event_reasons", "clocks_throttle_reasons")
        for reason, place in (
            *((name, name) for name in ("gpu_idle", "sw_power_cap", "hw_slowdown", "sw_thermal_slowdown")),
            *((name, name) for name in ("hw_thermal_slowdown", "hw_power_brake_slowdown")),
        )
    },
}
# --query-remapped-rows tells as a number what --query-gpu tells as a word.
_FLAGS = {"remapped_rows.pending": {"0": "No", "1": "Yes"}, "remapped_rows.failure": {"0": "No", "1": "Yes"}}
# All reasons in one number: nvmlClocksEventReasons of nvml.h.
_REASONS_ACTIVE = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_REASONS = {
    **{"gpu_idle": 0x1, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sw_thermal_slowdown": 0x20},
    **{"hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80},
}
# Units that neither header nor cell tells.
_UNITS = {
    "pcie.link.width.current": "x",
    "pcie.link.width.max": "x",
    "temperature.gpu": " C",
    "temperature.gpu.tlimit": " C",
    "temperature.memory": " C",
    "remapped_rows.histogram.none": " bank(s)",
}


def header_of(command: str) -> str:
    """Return the line of names that this command leaves out (``--format=csv,noheader``), "" where it prints one."""
    fields = _ASKED.search(command)
    return ", ".join(fields.group(1).split(",")) + "\n" if fields and _NO_HEADER.search(command) else ""


def recognises(text: str) -> bool:
    """Return whether the text begins with the names of fields, the GPU's address or two others among them."""
    header = text.lstrip("\n").partition("\n")[0].rstrip()
    if not _HEADER.fullmatch(header):
        return False
    names = [_unit_of(field)[0] for field in header.split(", ")]
    return any(name in _ADDRESSES for name in names) or sum(name in _PLACES or name == "index" for name in names) > 1


def names_places(text: str) -> bool:
    """Return whether an answer names its GPUs by their PCI addresses."""
    return any(name in _ADDRESSES for name in text.lstrip("\n").partition("\n")[0].rstrip().split(", "))


def read_query(text: str) -> tuple[Node, list[Node]]:
    """Return what the answer says of the host, and its GPUs; raises Unreadable."""
    rows = list(csv.reader(text.strip("\n").split("\n"), skipinitialspace=True))
    # A last line without its end may have lost part of a number.
    if not text.endswith("\n"):
        rows.pop()
    if len(rows) < 2:
        raise Unreadable("names fields and has no line of a GPU")
    names, units = zip(*(_unit_of(field) for field in rows[0]))
    at = next((name for name in _ADDRESSES if name in names), "")
    if not at:
        raise Unreadable(f"names GPUs by {', '.join(names)[:60]}, expected {' or '.join(_ADDRESSES)} among the fields")
    host, gpus = Node("host"), []
    for row in rows[1:]:
        if len(row) != len(names):
            raise Unreadable(f"a line of {len(row)} cells, {', '.join(row)[:60]!r}, expected {len(names)}")
        cells = dict(zip(names, row))
        gpu = Node("gpu", cells[at])
        for name, unit, cell in zip(names, units, row):
            if name in _PLACES:
                told = _FLAGS.get(name, {}).get(cell, cell)
                _put(gpu, _PLACES[name], f"{told}{unit}" if re.fullmatch(r"-?[0-9.]+", told) else told)
            elif name in _REASONS_ACTIVE and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", cell):
                for reason, bit in _REASONS.items():
                    _put(gpu, f"{_THROTTLE}_{reason}", "Active" if int(cell, 16) & bit else "Not Active")
        gpus.append(gpu)
        for name in ("driver_version", "count"):
            if name in cells:
                _put(host, {"count": "attached_gpus"}.get(name, name), cells[name])
    if host.value("attached_gpus") is None:
        # Nobody says how many there are: the class does.
        _put(host, "attached_gpus", str(len(gpus)))
    return host, gpus


def _unit_of(field: str) -> tuple[str, str]:
    name, _, unit = field.strip().partition(" [")
    return name, f" {unit.rstrip(']')}" if unit else _UNITS.get(name, "")


def _put(node: Node, path: str, text: str) -> None:
    for name in path.split("/"):
        found = next((child for child in node.children if child.name == name), None)
        if found is None:
            found = Node(name)
            node.children.append(found)
        node = found
    if node.text is not None and node.text != text:
        # Two that differ: Node.value gives neither.
        node.text = ""
    else:
        node.text = text
