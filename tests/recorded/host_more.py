"""Expected verdicts: NVMe drives, fio, the BMC through ipmitool and Redfish, firmware; and what lies beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .row import Row


def under(name: str) -> Callable[[bytes], Output]:
    """Return what makes a file the answer for one part, as a probe that asks a tool once for each part keeps it."""
    return lambda data: joined({name: Output(data.decode())})


def bmc(interface: str, **sections: Any) -> Mapping[str, Any]:
    """Return a class whose BMC is asked through ``interface`` for these sections alone."""
    documents = {"address": "192.0.2.1", "netrc": "/etc/muster/bmc", "certificate": None, "documents": ["/redfish/v1"]}
    asked = {name: sections.get(name) for name in ("log", "sensors", "power_supplies", "inlet", "airflow")}
    return {"bmc": {"interface": interface, "redfish": documents, **asked}}


def sensors(file: str, count: int, required: str, why: str, verdict: str = "pass") -> Row:
    """Return a row about a Redfish document of which ``count`` parts must have a state or a reading."""
    wanted = {"count": count, "required": [required] if required else []}
    return Row(f"redfish/{file}", "redfish", ("bmc_sensors",), verdict, bmc("redfish", sensors=wanted), why)


def log(file: str, why: str, verdict: str = "pass") -> Row:
    """Return a row about a Redfish log; where it leaves no fault open, it passes."""
    wanted = {"since": None, "correctable_ecc_events": 1}
    return Row(f"redfish/{file}", "redfish", ("bmc_log",), verdict, bmc("redfish", log=wanted), why)


def smart(file: str, verdict: str, why: str) -> Row:
    """Return a row about one drive's health report."""
    return Row(f"nvme/{file}", "smartctl", ("nvme_smart",), verdict, {"nvme": {"count": 1}}, why, under("nvme 1"))


ONE_DRIVE = {"nvme": {"count": 1}}
ROWS = [
    smart("smartctl-INTEL_SSDPE2KX080T8_1.json", "pass", "no warning, no media error, 0 % used"),
    smart("smartctl-nvme-good.json", "pass", "no critical warning, no media errors, little worn"),
    smart(
        "smartctl-nvme-null-INTEL_SSDPF2KX038TZ-nvme4.json", "pass", "no critical warning, no media errors, little worn"
    ),
    smart(
        "smartctl-nvme-zeroed-smart-data.json", "fail", "6331 hours without a power cycle: the drive lost its counters"
    ),
    Row(
        "fio/fio-nvme-randrw-4k.json",
        "nvme_read",
        ("nvme_speed",),
        "pass",
        {**ONE_DRIVE, "nvme_read": {"kiops": 85}},
        "no error; the reads reach what the class then says",
        under("nvme 1"),
    ),
    Row(
        "fio/fio-nvme-randrw-4k.json",
        "nvme_read",
        ("nvme_speed",),
        "fail",
        {**ONE_DRIVE, "nvme_read": {"kiops": 1202}},
        "the class of a fast drive, read alone: far below",
        under("nvme 1"),
    ),
    Row(
        "fio/fio-nvme-randrw-4k.json",
        "nvme_read",
        ("nvme_speed",),
        "incomplete",
        ONE_DRIVE,
        "nothing to compare one drive with",
        under("nvme 1"),
    ),
    Row(
        "ipmi/ipmitool-sdr-type-voltage.txt",
        "ipmi_sdr",
        ("bmc_sensors",),
        "pass",
        bmc("ipmitool", sensors={"count": 12, "required": ["VBAT", "VDIMM AB"]}),
        "three sensors are of parts that are not there",
    ),
    Row(
        "ipmi/ipmitool-sdr-type-voltage.txt",
        "ipmi_sdr",
        ("bmc_sensors",),
        "incomplete",
        bmc("ipmitool", sensors={"count": 12, "required": ["CPU2 Vcore"]}),
        "a class with two processors owes the second one's voltage",
    ),
    Row(
        "ipmi/ipmitool-sel-list-dimm-ce.txt",
        "ipmi_sel",
        ("bmc_log",),
        "fail",
        bmc("ipmitool", log={"since": None, "correctable_ecc_events": 1}),
        "DIMM 8 of CPU 0 corrects an error every 5.6 hours, the battery is below its lower critical limit",
    ),
    log("dgxh100-bmc-sel.json", "75 entries of severity OK"),
    log("dgxh100-gpu-sxm1-xid-log.json", "history: the kernel log of the current boot judges the GPU"),
    log("dgxh100-gpu-sxm3-xid-log-empty.json", "no entry"),
    log("dgxh100-gpu-sxm4-xid-log.json", "history, as GPU 1"),
    log("dgxh100-hgx-bmc-journal.json", "the BMC's own daemon complains of an interface, not of a GPU"),
    log("dgxh100-hgx-eventlog.json", "power caps at full load, firmware updates, a failover that is resolved"),
    log("dell-lclog.json", "an export that failed is no fault of the hardware: a watch"),
    log("hpe-iml.json", "input power lost at supply 2, not redundant, neither repaired", "fail"),
    log("smc821ge-health-event-log.json", "each supply that failed was put in again; the rest is a watch"),
    log("idrac9-faultlist-empty.json", "no entry"),
    log("idrac9-sel.json", "five entries of severity OK"),
    sensors("dgxh100-chassis-power.json", 17, "VOLT_12V", "17 voltages within their limits"),
    sensors("dgxh100-chassis-thermal.json", 143, "TEMP_AMBIENT", "13 cages are empty, 143 sensors are well"),
    sensors(
        "dgxh100-chassis-thermal.json", 143, "TEMP_NIC_QSFP1", "an empty cage has no temperature to pass", "incomplete"
    ),
    sensors("dgxh100-powersubsystem.json", 1, "", "redundant and well"),
    sensors("dgxh100-sensor-temp-gpu1.json", 1, "TEMP_GB_SXM1", "27 C, critical at 88"),
    sensors("dgxh100-sensor-temp-osfp-absent.json", 1, "TEMP_NM_0_OSFP1", "not measured", "incomplete"),
    sensors("dgxh100-sensor-tlimit-gpu1.json", 1, "TLIMIT_GB_SXM1", "60 C of margin, where low is bad"),
    sensors("dgxh100-system.json", 3, "", "system, processors and memory are well"),
    sensors("gb200-leakdetector-coldplate0.json", 1, "", "no leak"),
    sensors("smc821ge-power.json", 14, "12V", "voltages and redundancy are well"),
    sensors("smc821ge-system.json", 3, "", "system, processors and memory are well"),
    sensors("smc821ge-thermal.json", 42, "Inlet Temp", "two slots are empty, 42 sensors are well"),
    Row(
        "redfish/smc821ge-power.json",
        "redfish",
        ("power_supplies",),
        "pass",
        bmc("redfish", power_supplies={"count": 8}),
        "eight supplies, all well",
    ),
    Row(
        "redfish/smc821ge-thermal.json",
        "redfish",
        ("inlet_temperature",),
        "pass",
        bmc("redfish", inlet={"sensor": "Inlet Temp", "limit_celsius": 35}),
        "21 C",
    ),
    Row(
        "redfish/dgxh100-chassis-thermal.json",
        "redfish",
        ("inlet_temperature",),
        "pass",
        bmc("redfish", inlet={"sensor": "TEMP_AMBIENT", "limit_celsius": 37}),
        "22 C",
    ),
    Row(
        "redfish/dgxh100-chassis-thermal.json",
        "redfish",
        ("airflow",),
        "pass",
        bmc(
            "redfish",
            inlet={"sensor": "TEMP_AMBIENT", "limit_celsius": 37},
            airflow={"outlet": "TEMP_MB_OUTLET", "rise_celsius": 30, "fans": 36},
        ),
        "25 C from inlet to outlet, 36 fans turn",
    ),
    Row(
        "redfish/smc821ge-thermal.json",
        "redfish",
        ("airflow",),
        "fail",
        bmc("redfish", airflow={"outlet": None, "rise_celsius": None, "fans": 10}),
        "a class of ten fans, of which this BMC tells six",
    ),
    Row(
        "dmidecode/dmidecode-xe9680-system.txt",
        "dmidecode",
        ("firmware",),
        "pass",
        {
            "firmware": {
                "system_product": "PowerEdge XE9680",
                "bios_vendor": None,
                "bios_version": None,
                "bmc_version": None,
            }
        },
        "the machine that is declared",
    ),
]

_IN_BAND = "counters of a GPU, which nvidia-smi gives in band, by the driver's own word"
_READINGS = "readings without limits or states: nothing to judge them by"
_INVENTORY = "a list of addresses; the BMC's own version is read from its Manager document"
NOT_COVERED = {
    "storage/": "an inventory of block devices or mounts, which tells no state",
    "redfish/dgxh100-firmware-gpu-sxm1.json": "firmware of a GPU is read in band (VBIOS)",
    "redfish/dgxh100-firmware-inventory.json": _INVENTORY,
    "redfish/smc821ge-firmware-inventory.json": _INVENTORY,
    "redfish/dgxh100-gpu1-memorymetrics.json": _IN_BAND,
    "redfish/dgxh100-gpu1-processormetrics.json": _IN_BAND,
    "redfish/dgxh100-metricreport-platform-environment.json": _READINGS,
    "redfish/dgxh100-thermalmetrics-cpubaseboard.json": _READINGS,
    "redfish/dgxh100-thermalmetrics-hgx.json": _READINGS,
    "redfish/dgxh100-nvswitch0-sxid-log.json": "garbled numbers and dates from 1970: no verdict can be had from it",
}
