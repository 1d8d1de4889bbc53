"""The node program on a lab host: from simulated tools to findings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED

from .conftest import FirstHost, show

Findings = dict[tuple[str, str], Finding]
# What nvidia-smi -q is read for.
GPU_CHECKS = [name for name, check in CHECKS.items() if check.PROBES == ("nvidia_smi",)]
Examine = Callable[..., Findings]


@pytest.fixture(scope="module")
def burn_in(first_host: FirstHost, node_program: Path) -> Examine:
    """Examine the host once, as burn-in does, with these faults."""
    place = first_host.place
    lab = expectations_of("lab_h100", {}, "lab")
    # An HGX H100 with the firmware and the BMC of a lab host, which a site declares for its own.
    expect: dict[str, Any] = {
        **expectations_of("hgx_h100", PLACED, "lab"),
        **{section: lab[section] for section in ("firmware", "bmc")},
    }
    tools = {"path": f"{place}/bin:/usr/bin:/bin", "root": str(place / "root")}
    words = ["examine", "--stage", "burn_in", "--node", "gpu-01", "--no-store"]

    def run(**faults: Any) -> Findings:
        first_host.restore()
        show(place, **faults)
        boot_id = place / "root" / "proc" / "sys" / "kernel" / "random" / "boot_id"
        boot_id.parent.mkdir(parents=True, exist_ok=True)
        boot_id.write_text("11111111-2222-3333-4444-555555555555\n", encoding="ascii")
        done = subprocess.run(
            [sys.executable, str(node_program), *words],
            input=json.dumps({**expect, "tools": tools}),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        findings = Evidence.from_dict(json.loads(done.stdout)).findings
        return {(finding.check, finding.subject): finding for finding in findings}

    return run


@pytest.fixture(scope="module")
def healthy(burn_in: Examine) -> Findings:
    return burn_in()


@pytest.fixture(scope="module")
def faulty(burn_in: Examine) -> Findings:
    """Findings on a host with a fault of every kind that leaves the others measurable."""
    return burn_in(**DRIVES, **NVLINKS, **NICS, **GPUS, **FABRIC_MANAGER, **PCIE, **BMC)


def gpus_of(findings: Findings) -> dict[str, Finding]:
    """Return the inventory's findings by slot."""
    return {subject.split()[1]: finding for (check, subject), finding in findings.items() if check == "gpu_inventory"}


def test_healthy_host_passes(healthy: Findings) -> None:
    assert {finding.verdict for finding in gpus_of(healthy).values()} == {"pass"}
    assert {finding.verdict for (check, _), finding in healthy.items() if check.startswith("nic")} == {"pass"}


@pytest.mark.parametrize("names", [{"persistent_names": True}, {"extra_nic": True}])
def test_what_the_system_calls_the_rails_makes_no_difference(
    burn_in: Examine, healthy: Findings, names: dict[str, bool]
) -> None:
    assert {key: finding.verdict for key, finding in burn_in(**names).items()} == {
        key: finding.verdict for key, finding in healthy.items()
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({}, "rail 1 (mlx5_1)"),
        ({"persistent_names": True}, "rail 1 (rocep60s0)"),
        ({"extra_nic": True}, "rail 1 (mlx5_2)"),
    ],
)
def test_fault_of_a_rail_is_found_on_it_whatever_it_is_called(
    burn_in: Examine, names: dict[str, bool], expected: str
) -> None:
    findings = burn_in(**names, nics_missing=["rail0"], nic_values={"rail1": {"ports/1/rate": "200 Gb/sec (2X NDR)"}})
    failed = {key: finding for key, finding in findings.items() if finding.verdict == "fail"}
    assert set(failed) == {("nic_inventory", "nic rail0"), ("nic_link", "nic rail1")}
    assert failed["nic_link", "nic rail1"].reason.startswith(expected)


def test_lost_gpu_fails_by_slot_and_address_and_the_others_do_not_pass_unread(burn_in: Examine) -> None:
    findings = burn_in(gpus_lost=["SXM6"])
    gpus = gpus_of(findings)
    lost = gpus.pop("SXM6")
    assert (lost.subject, lost.verdict, lost.action) == ("gpu SXM6 0000:85:00.0", "fail", "reboot")
    assert "gpu SXM6 0000:85:00.0 is lost" in lost.reason
    assert {finding.verdict for finding in gpus.values()} == {"incomplete"} and len(gpus) == 7
    assert "gpu_serials" in findings["fingerprint", "host"].reason


def test_of_two_lost_gpus_the_one_is_named_at_which_nvidia_smi_stops(burn_in: Examine) -> None:
    lost = gpus_of(burn_in(gpus_lost=["SXM1", "SXM6"]))
    assert {slot: finding.verdict for slot, finding in lost.items() if finding.verdict != "incomplete"} == {
        "SXM1": "fail"
    }


@pytest.mark.parametrize("driver", ["550.163.01", "535.309.01"])
def test_lost_gpus_that_are_listed_all_the_same_fail_and_the_others_are_judged(burn_in: Examine, driver: str) -> None:
    findings = burn_in(gpus_lost_listed=["SXM1", "SXM6"], driver=driver)
    gpus = gpus_of(findings)
    assert {slot: (one.verdict, one.action) for slot, one in gpus.items() if one.verdict != "pass"} == {
        "SXM1": ("fail", "reboot"),
        "SXM6": ("fail", "reboot"),
    }
    of_lost = [one for (check, part), one in findings.items() if "SXM6" in part and check in GPU_CHECKS]
    assert len(of_lost) >= 9 and "pass" not in {one.verdict for one in of_lost}


DRIVES: dict[str, Any] = {
    "nvme_missing": [8],
    "nvme_files": {"2": {"device/current_link_width": "2"}},
    "nvme_smart": {"3": {"media_errors": 4}, "4": {"critical_warning": 4}},
}


def test_faulty_drives_are_named(faulty: Findings) -> None:
    found = {key: finding for key, finding in faulty.items() if key[0].startswith("nvme") and finding.verdict != "pass"}
    assert {key: (finding.verdict, finding.action) for key, finding in found.items()} == {
        ("nvme", "nvme 2"): ("fail", "reseat"),
        ("nvme", "nvme 8"): ("fail", "reseat"),
        ("nvme_smart", "nvme 3"): ("fail", "replace"),
        ("nvme_smart", "nvme 4"): ("fail", "replace"),
        ("nvme_smart", "nvme 8"): ("incomplete", "investigate"),
    }


NVLINKS: dict[str, Any] = {"nvlink_errors": {"SXM6": {"3": {"CRC Data Error": 12}}, "SXM2": {"0": {"Replay Error": 4}}}}


def test_nvlink_that_counts_errors_is_named(faulty: Findings) -> None:
    found = {
        subject.split()[1]: finding for (check, subject), finding in faulty.items() if check == "gpu_nvlink_errors"
    }
    failed = found.pop("SXM6")
    assert (failed.verdict, failed.measured, failed.action) == ("fail", 12, "reset_gpu")
    assert "link 3 CRC Data Error 12" in failed.reason
    assert {finding.verdict for finding in found.values()} == {"pass"} and len(found) == 7


# What nobody can be asked about a NIC that is not there.
UNASKED = ("link", "pcie", "pcie_settings", "firmware", "physical", "errors")


NICS: dict[str, Any] = {
    "nics_missing": ["rail0"],
    "nics_down": ["rail1"],
    "nic_values": {
        "rail2": {"ports/1/rate": "200 Gb/sec (2X NDR)"},
        "rail3": {"mlxlink/Effective Physical BER": "1E-9"},
        "rail4": {"ports/1/counters/link_downed": 255},
        "rail5": {"fw_ver": "28.39.1002"},
        "rail6": {"device/current_link_speed": "16.0 GT/s PCIe"},
        "rail7": {"mlxlink/Bin 8": 3},
    },
}


def test_faulty_nics_are_named(faulty: Findings) -> None:
    found = {
        key: (finding.verdict, finding.action)
        for key, finding in faulty.items()
        if key[0].startswith("nic") and finding.action != "none"
    }
    missing = {key for key, answer in found.items() if answer == ("incomplete", "investigate")}
    assert missing == {(f"nic_{name}", "nic rail0") for name in UNASKED}
    assert {key: answer for key, answer in found.items() if key not in missing} == {
        ("nic_inventory", "nic rail0"): ("fail", "reseat"),
        ("nic_link", "nic rail1"): ("fail", "reseat"),
        ("nic_physical", "nic rail1"): ("fail", "reseat"),
        ("nic_link", "nic rail2"): ("fail", "reseat"),
        ("nic_physical", "nic rail3"): ("fail", "reseat"),
        ("nic_errors", "nic rail4"): ("fail", "reseat"),
        ("nic_firmware", "nic rail5"): ("fail", "investigate"),
        ("nic_pcie", "nic rail6"): ("fail", "reseat"),
        ("nic_physical", "nic rail7"): ("pass", "investigate"),
    }


def test_healthy_host_passes_every_gpu_check(healthy: Findings) -> None:
    found = {key: finding for key, finding in healthy.items() if key[0].startswith(("gpu", "fabric"))}
    assert len({check for check, _ in found}) >= 15
    assert {key: finding.reason for key, finding in found.items() if finding.verdict != "pass"} == {}


LINK = "pci/pci_gpu_link_info/"
GPUS: dict[str, Any] = {
    "gpu_values": {
        "SXM1": {"remapped_rows/remapped_row_pending": "Yes", "vbios_version": "96.00.89.00.01"},
        "SXM2": {"remapped_rows/remapped_row_failure": "Yes", LINK + "link_widths/current_link_width": "8x"},
        "SXM3": {"ecc_errors/aggregate/sram_threshold_exceeded": "Yes", "persistence_mode": "Disabled"},
        "SXM4": {
            "mig_mode/current_mig": "Enabled",
            "gpu_power_readings/current_power_limit": "650.00 W",
            "ecc_errors/volatile/dram_uncorrectable": "1",
        },
        "SXM5": {"fabric/state": "In Progress", "gpu_reset_status/reset_required": "Yes"},
        "SXM6": {
            "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "Active",
            LINK + "pcie_gen/current_link_gen": "1",
        },
        "SXM7": {"ecc_mode/current_ecc": "Disabled", "gpu_power_readings/default_power_limit": "Unknown Error"},
    },
    "gpu_processes": {"SXM8": [{"pid": 42, "name": "python", "memory_mib": 512}]},
    "nvlinks": {"SXM1": {"3": 0}, "SXM2": {"4": 25000}},
    "gpu_nic_connections": {"SXM8": "SYS"},
    "fabric_manager": {"active": "active", "sub": "running", "version": "565.57.01"},
}


def test_every_gpu_fault_is_found_on_its_part(faulty: Findings) -> None:
    found = {
        (check, subject.split()[1] if " " in subject else subject): finding
        for (check, subject), finding in faulty.items()
        if check.startswith(("gpu", "fabric"))
    }
    assert {key: (one.verdict, one.action) for key, one in found.items() if one.verdict != "pass"} == {
        ("gpu_row_remap", "SXM1"): ("fail", "reset_gpu"),
        ("gpu_versions", "SXM1"): ("fail", "investigate"),
        ("gpu_row_remap", "SXM2"): ("fail", "rma"),
        ("gpu_pcie", "SXM2"): ("fail", "reseat"),
        ("gpu_ecc", "SXM3"): ("fail", "rma"),
        ("gpu_settings", "SXM3"): ("fail", "investigate"),
        ("gpu_settings", "SXM4"): ("fail", "reset_gpu"),
        ("gpu_power", "SXM4"): ("fail", "investigate"),
        ("gpu_ecc", "SXM4"): ("fail", "reset_gpu"),
        ("gpu_fabric", "SXM5"): ("fail", "investigate"),
        ("gpu_recovery", "SXM5"): ("fail", "reset_gpu"),
        ("gpu_throttle", "SXM6"): ("fail", "investigate"),
        ("gpu_settings", "SXM7"): ("fail", "reset_gpu"),
        ("gpu_power", "SXM7"): ("incomplete", "investigate"),
        # Without ECC nvidia-smi shows no counts.
        ("gpu_ecc", "SXM7"): ("incomplete", "investigate"),
        ("gpu_processes", "SXM8"): ("fail", "restart_app"),
        ("gpu_nvlink", "SXM1"): ("fail", "reset_gpu"),
        ("gpu_nvlink", "SXM2"): ("fail", "reset_gpu"),
        ("gpu_affinity", "SXM8"): ("fail", "investigate"),
        ("fabric_manager", "host"): ("fail", "investigate"),
        # As NVLINKS and FABRIC_MANAGER have it.
        ("gpu_nvlink_errors", "SXM6"): ("fail", "reset_gpu"),
        ("fabric_manager_log", "host"): ("fail", "reboot"),
        ("fabric_manager_log", "0000:86:00.0"): ("fail", "reset_gpu"),
    }
    assert "idle" in found["gpu_pcie", "SXM6"].reason


WHERE = "on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33"
FABRIC_MANAGER: dict[str, Any] = {
    "fabric_manager_log": [
        f"[ERROR] [tid 841] detected NVSwitch fatal error 20034 {WHERE}",
        "[ERROR] [tid 841] failed to find the GPU handle 1018 in the multicast team request setup 5653.",
    ],
}


def test_what_the_fabric_manager_logged_is_judged_by_part(faulty: Findings) -> None:
    found = {subject: finding for (check, subject), finding in faulty.items() if check == "fabric_manager_log"}
    assert {part: (finding.verdict, finding.action) for part, finding in found.items()} == {
        "host": ("fail", "reboot"),
        "nvswitch 0000:86:00.0": ("fail", "reset_gpu"),
    }


PCIE: dict[str, Any] = {
    "pcie_errors": {
        "0000:85:00.0": {"correctable": {"RxErr": 101}},
        "0000:0b:00.0": {"correctable": {"RxErr": 100}},
        "0000:9c:00.0": {"fatal": {"DLP": 1}},
        "0000:18:00.0": {"nonfatal": {"CmpltTO": 2}},
    },
}


def test_counted_pcie_errors_are_judged_by_part(faulty: Findings) -> None:
    found = {subject: finding for (check, subject), finding in faulty.items() if check == "pcie_aer"}
    assert len(found) == 24
    assert {part: (one.verdict, one.measured, one.action) for part, one in found.items() if one.verdict != "pass"} == {
        "gpu SXM6 0000:85:00.0": ("fail", 101, "reseat"),
        "nic rail4": ("fail", 1, "reseat"),
        "nvme 1": ("fail", 2, "reseat"),
        # Missing, as NICS and DRIVES have it.
        "nic rail0": ("incomplete", None, "investigate"),
        "nvme 8": ("incomplete", None, "investigate"),
    }


def test_numa_off_is_found_on_the_host(burn_in: Examine) -> None:
    assert "numa=off" in burn_in(numa_off=True)["gpu_affinity", "host"].reason


ECC = "03/02/2026 | 11:41:08 UTC | Memory Mem ECC | Correctable ECC | Asserted | CPU 0 DIMM 8"
BMC: dict[str, Any] = {
    "firmware": {"system_product": "Lab HGX", "bios_vendor": "Lab", "bios_version": "1.3", "bmc_version": "1.01"},
    "bmc_sensors": {
        "Inlet Temp": ["ok", "41 degrees C"],
        "CPU2 Temp": ["ns", "No Reading"],
        "12V": ["lcr", "10.40 Volts"],
        "FAN3": ["ok", "0 RPM"],
        "PS2 Status": ["ok", "Presence detected, Failure detected"],
        "PS6 Status": None,
    },
    "bmc_log": [ECC, ECC],
}


def test_what_the_bmc_says_is_judged_by_part(faulty: Findings) -> None:
    checks = ("firmware", "bmc_log", "bmc_sensors", "power_supplies", "inlet_temperature", "airflow")
    found = {key: finding for key, finding in faulty.items() if key[0] in checks and finding.verdict != "pass"}
    assert {key: (finding.verdict, finding.action) for key, finding in found.items()} == {
        ("firmware", "bios"): ("fail", "investigate"),
        # One sensor has no reading, one is gone.
        ("bmc_sensors", "bmc"): ("incomplete", "investigate"),
        ("bmc_log", "dimm CPU 0 DIMM 8"): ("fail", "replace"),
        ("bmc_sensors", "sensor 12V"): ("fail", "investigate"),
        ("bmc_sensors", "sensor PS2 Status"): ("fail", "investigate"),
        ("bmc_sensors", "sensor CPU2 Temp"): ("incomplete", "investigate"),
        ("power_supplies", "psu 2"): ("fail", "replace"),
        ("power_supplies", "psu 6"): ("fail", "reseat"),
        ("inlet_temperature", "host"): ("fail", "investigate"),
        ("airflow", "host"): ("fail", "investigate"),
    }
