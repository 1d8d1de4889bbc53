"""What the driver of a lab host says of its GPUs: the values that the library nvml.c answers with.

A value has the name and the text that `nvidia-smi -q -x` of driver 570 gives it, whichever nvidia-smi shows it. What
that does not tell has a name of ours: ``handle``, ``cpu_affinity``, ``nvlink/3/speed`` (MB/s), ``process/0/pid``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MODEL = "NVIDIA H100 80GB HBM3"
MEMORY_MIB = 81559
LINKS = 18
LINK_MB_PER_S = 26562
# What stands in the place of each value of a GPU that is lost and listed all the same.
LOST = "GPU is lost"
# What may stand in the place of any value.
ERRORS = ("N/A", LOST, "GPU requires reset", "Unknown Error", "Insufficient Permissions")
_WORDS = (("Yes", "No"), ("Enabled", "Disabled"), ("Active", "Not Active"))
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?( ?[A-Za-z%/()]*)")
_KNOWN_TO_THE_KERNEL = (
    "pci/pci_bus_id",
    "pci/pci_device_id",
    "pci/pci_sub_system_id",
    "pci/pci_base_class",
    "pci/pci_sub_class",
)
_REASON = "clocks_event_reasons/clocks_event_reason_"
_NOT_ACTIVE = (
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "display_clocks_setting",
)
_COUNTS = (
    *("pci/replay_counter", "pci/replay_rollover_counter"),
    *(
        f"ecc_errors/{life}/{kind}"
        for life in ("volatile", "aggregate")
        for kind in (
            "sram_correctable",
            "sram_uncorrectable_parity",
            "sram_uncorrectable_secded",
            "dram_correctable",
            "dram_uncorrectable",
        )
    ),
    *(
        f"ecc_errors/aggregate_uncorrectable_sram_sources/sram_{at}"
        for at in ("l2", "sm", "microcontroller", "pcie", "other")
    ),
    *("remapped_rows/remapped_row_corr", "remapped_rows/remapped_row_unc"),
)
# An idle H100 SXM5.
HEALTHY: dict[str, str] = {
    "product_name": MODEL,
    "product_brand": "NVIDIA",
    "product_architecture": "Hopper",
    "display_mode": "Enabled",
    "display_active": "Disabled",
    "persistence_mode": "Enabled",
    "mig_mode/current_mig": "Disabled",
    "mig_mode/pending_mig": "Disabled",
    "accounting_mode": "Disabled",
    "accounting_mode_buffer_size": "4000",
    "vbios_version": "96.00.A5.00.01",
    "multigpu_board": "No",
    "board_part_number": "692-2G520-0200-000",
    "inforom_version/img_version": "G520.0200.00.05",
    "inforom_version/oem_object": "2.1",
    "inforom_version/ecc_object": "7.16",
    "inforom_version/pwr_object": "N/A",
    "gpu_virtualization_mode/virtualization_mode": "None",
    "gpu_reset_status/reset_required": "No",
    "gpu_reset_status/drain_and_reset_recommended": "No",
    "gpu_recovery_action": "None",
    "pci/pci_base_class": "3",
    "pci/pci_sub_class": "2",
    "pci/pci_device_id": "0x233010DE",
    "pci/pci_sub_system_id": "0x16C110DE",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "5",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "5",
    "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen": "5",
    "pci/pci_gpu_link_info/pcie_gen/max_host_link_gen": "5",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "16x",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "16x",
    "pci/tx_util": "400 KB/s",
    "pci/rx_util": "300 KB/s",
    "fan_speed": "N/A",
    "performance_state": "P0",
    f"{_REASON}gpu_idle": "Active",
    **{f"{_REASON}{reason}": "Not Active" for reason in _NOT_ACTIVE},
    "fb_memory_usage/total": f"{MEMORY_MIB} MiB",
    "fb_memory_usage/reserved": "469 MiB",
    "fb_memory_usage/used": "1 MiB",
    "fb_memory_usage/free": f"{MEMORY_MIB - 470} MiB",
    "bar1_memory_usage/total": "131072 MiB",
    "bar1_memory_usage/used": "1 MiB",
    "bar1_memory_usage/free": "131071 MiB",
    "cc_protected_memory_usage/total": "0 MiB",
    "cc_protected_memory_usage/used": "0 MiB",
    "cc_protected_memory_usage/free": "0 MiB",
    "compute_mode": "Default",
    "utilization/gpu_util": "0 %",
    "utilization/memory_util": "0 %",
    "utilization/encoder_util": "0 %",
    "utilization/decoder_util": "0 %",
    "utilization/jpeg_util": "0 %",
    "utilization/ofa_util": "0 %",
    "ecc_mode/current_ecc": "Enabled",
    "ecc_mode/pending_ecc": "Enabled",
    **dict.fromkeys(_COUNTS, "0"),
    "ecc_errors/aggregate/sram_threshold_exceeded": "No",
    "ecc_errors/channel_repair_pending": "No",
    "ecc_errors/tpc_repair_pending": "No",
    "ecc_errors/unrepairable_memory": "No",
    "retired_pages/pending_retirement": "N/A",
    "remapped_rows/remapped_row_pending": "No",
    "remapped_rows/remapped_row_failure": "No",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_max": "2560 bank(s)",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_high": "0 bank(s)",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_partial": "0 bank(s)",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_low": "0 bank(s)",
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_none": "0 bank(s)",
    "temperature/gpu_temp": "32 C",
    "temperature/gpu_temp_tlimit": "55 C",
    "temperature/gpu_temp_max_tlimit_threshold": "-8 C",
    "temperature/gpu_temp_slow_tlimit_threshold": "-2 C",
    "temperature/gpu_temp_max_gpu_tlimit_threshold": "0 C",
    "temperature/memory_temp": "38 C",
    "temperature/gpu_temp_max_mem_tlimit_threshold": "0 C",
    "gpu_power_readings/power_draw": "70.00 W",
    "gpu_power_readings/current_power_limit": "700.00 W",
    "gpu_power_readings/requested_power_limit": "700.00 W",
    "gpu_power_readings/default_power_limit": "700.00 W",
    "gpu_power_readings/min_power_limit": "200.00 W",
    "gpu_power_readings/max_power_limit": "700.00 W",
    "gpu_memory_power_readings/power_draw": "43.00 W",
    "clocks/graphics_clock": "345 MHz",
    "clocks/sm_clock": "345 MHz",
    "clocks/mem_clock": "2619 MHz",
    "clocks/video_clock": "765 MHz",
    "applications_clocks/graphics_clock": "1980 MHz",
    "applications_clocks/mem_clock": "2619 MHz",
    "default_applications_clocks/graphics_clock": "1980 MHz",
    "default_applications_clocks/mem_clock": "2619 MHz",
    "max_clocks/graphics_clock": "1980 MHz",
    "max_clocks/sm_clock": "1980 MHz",
    "max_clocks/mem_clock": "2619 MHz",
    "max_clocks/video_clock": "1545 MHz",
    "max_customer_boost_clocks/graphics_clock": "1980 MHz",
    "fabric/state": "Completed",
    "fabric/status": "Success",
    "fabric/cliqueId": "0",
    "fabric/clusterUuid": "00000000-0000-0000-0000-000000000000",
    "fabric/health_mask": "0",
    "fabric/health_summary": "0",
}
# What nvidia-smi shows in place of an idle GPU when it watches a load, round by round.
AT_WORK = {
    "gpu_power_readings/power_draw": "695.00 W",
    "temperature/gpu_temp": "62 C",
    "temperature/memory_temp": "70 C",
    "clocks/sm_clock": "1755 MHz",
    "utilization/gpu_util": "100 %",
    "utilization/memory_util": "30 %",
    f"{_REASON}gpu_idle": "Not Active",
    f"{_REASON}sw_power_cap": "Active",
}


def gpus_of(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs that the driver sees, as it counts them: in the order of their addresses."""
    present = [gpu for gpu in state["gpus"] if gpu["slot"] not in state["gpus_missing"]]
    return sorted(present, key=lambda gpu: gpu["address"])


def processors_of(state: Mapping[str, Any], node: int, nodes: int) -> str:
    """Return the processors of one of so many NUMA nodes, two threads for each core: ``0-47,96-143``."""
    cores = int(state["cpu"]["cores"])
    first, last = node * cores // nodes, (node + 1) * cores // nodes - 1
    return f"{first}-{last},{cores + first}-{cores + last}"


def expected_of(name: str, value: str) -> str | None:
    """Return what is expected of a value where the library would not show this one, None where it does."""
    if name not in HEALTHY:
        return f"one of {', '.join(HEALTHY)}"
    healthy = HEALTHY[name]
    if value in ERRORS:
        return None
    if words := next((words for words in _WORDS if healthy in words), None):
        return None if value in words else " or ".join(words)
    unit = _NUMBER.fullmatch(healthy)
    found = _NUMBER.fullmatch(value)
    if unit and not (found and found[1] == unit[1]):
        return f"a number as in {healthy!r}"
    return None


def files_of(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that the library reads, by name: GPUs as they are, and at work as far as that is left open."""
    values = {gpu["slot"]: {**AT_WORK, **state["gpu_values"].get(gpu["slot"], {})} for gpu in state["gpus"]}
    return {"gpus": text_of(state), "gpus_at_work": text_of({**state, "gpu_values": values})}


def text_of(state: Mapping[str, Any]) -> str:
    """Return one file that the library reads."""
    gpus = gpus_of(state)
    host = {"attached_gpus": len(gpus), "driver_version": state["driver"], "cuda_version": "12.4"}
    lines = [f"host\t{name}\t{value}\n" for name, value in host.items()]
    for index, gpu in enumerate(gpus):
        lines += [f"{index}\t{name}\t{value}\n" for name, value in _gpu(state, index, gpu)]
    return "".join(lines)


def _gpu(state: Mapping[str, Any], index: int, gpu: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    slot, (domain, bus, rest) = gpu["slot"], gpu["address"].upper().split(":")
    # Of those that were built in, the first half is at the first socket.
    order = sorted(each["address"] for each in state["gpus"])
    if slot in state["gpus_lost"]:
        yield "handle", LOST
    values = {
        **HEALTHY,
        "serial": state["gpu_serials"].get(slot, gpu["serial"]),
        "uuid": gpu["uuid"],
        "minor_number": index,
        "board_id": f"0x{int(bus, 16) << 8:x}",
        "gsp_firmware_version": state["driver"],
        "pci/pci_bus_id": f"{domain:0>8}:{bus}:{rest}",
        "platformInfo/module_id": slot.removeprefix("SXM"),
        "cpu_affinity": processors_of(state, 2 * order.index(gpu["address"]) // len(order), 2),
        **_nvlink(state["nvlinks"].get(slot, {})),
        **{
            f"process/{number}/{field}": process[key]
            for number, process in enumerate(state["gpu_processes"].get(slot, []))
            for field, key in (("pid", "pid"), ("memory", "memory_mib"), ("name", "name"))
        },
        **state["gpu_values"].get(slot, {}),
    }
    lost = slot in (*state["gpus_lost"], *state["gpus_lost_listed"])
    yield from ((name, LOST if lost and name not in _KNOWN_TO_THE_KERNEL else value) for name, value in values.items())


def _nvlink(links: Mapping[str, int]) -> dict[str, object]:
    """Return the speed of each link in MB/s, 0 for one that is down."""
    found: dict[str, object] = {"nvlink/count": LINKS, "nvlink/speed": LINK_MB_PER_S, "nvlink/version": 4}
    for link in range(LINKS):
        speed = links.get(str(link), LINK_MB_PER_S)
        found |= {f"nvlink/{link}/speed": speed, f"nvlink/{link}/state": "Active" if speed else "Not Active"}
    return found
