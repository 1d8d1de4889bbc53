"""Every probe, check and stress by name, what each stage runs, and what each stage owes.

A name is that of the module; it is imported when it is asked for, since the health check has half a second in all.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from ..host.host import Host, Output
from ..nic.declared_nics import rail_subjects
from ..words.expectations import Expectations, stated
from .examine import Check, Examination, Parser, Probe, Stress, collect, judge

T = TypeVar("T")

_LOG_CHECKS = (
    *("sxid", "gpu_log", "pcie_errors", "machine_check", "nic_log", "nvme_log", "mount_log", "oom_log"),
    *("filesystem_log", "kernel_crash", "program_crash"),
)
# Preflight asks whether the host is fit to be burned in and who it is; that its GPUs are all there and silent is
# burn-in's verdict. A GPU lost later changes the fingerprint that preflight reads, which voids the burn-in.
# A check that stands in no table is asked by burn-in, after those listed here.
STAGE_CHECKS: dict[str, tuple[str, ...]] = {
    "preflight": (
        *("fingerprint", "cpu", "memory", "clock", "disk", "roce_settings", "roce_gid", "nccl_version"),
        *("perftest", "rdma_modules", "mounts", "local_drives", "pytorch"),
    ),
    "burn_in": (
        "fingerprint",
        "gpu_inventory",
        "gpu_versions",
        "gpu_power",
        "gpu_settings",
        "gpu_pcie",
        "gpu_nvlink",
        "gpu_nvlink_errors",
        "gpu_fabric",
        "nvlink_domain",
        "fabric_manager",
        "fabric_manager_log",
        "nvlink_subnet_manager",
        "imex",
        "gpu_row_remap",
        "gpu_ecc",
        "gpu_retired_pages",
        "gpu_recovery",
        "gpu_throttle",
        "gpu_affinity",
        "gpu_processes",
        "xid",
        *_LOG_CHECKS,
        "cpu",
        "cpu_governor",
        "microcode",
        "memory",
        "dimms",
        "memory_errors",
        "numa",
        "swap",
        "hugepages",
        "kernel_command_line",
        "pcie_links",
        "pcie_aer",
        "acs",
        "clock",
        "clocksource",
        "disk",
        "nvme",
        "nvme_smart",
        "nic_inventory",
        "nic_link",
        "nic_interface",
        "nic_pcie",
        "nic_pcie_settings",
        "nic_firmware",
        "nic_firmware_settings",
        "nic_physical",
        "nic_errors",
        "firmware",
        "bmc_log",
        "bmc_sensors",
        "power_supplies",
        "inlet_temperature",
        "airflow",
    ),
    # What is cheap and waits for nothing; what users' programs may do (oom_log, program_crash) is not the host's.
    "health": (
        *(
            "boot_preflight",
            "log_continuity",
            "gpu_present",
            "nvml",
            "xid",
            "sxid",
            "gpu_log",
            "pcie_errors",
            "machine_check",
        ),
        *("nic_log", "nvme_log", "filesystem_log", "kernel_crash", "counter_growth", "nic_link", "roce_gid"),
        *("disk", "mounts", "local_drives"),
    ),
    # Of health what may have changed since it ran last, and what a job may have done; users wait for both.
    "prolog": ("gpu_present", "xid", "sxid", "gpu_log", "nic_link", "disk"),
    "epilog": ("nvml", "xid", "sxid", "gpu_log", "counter_growth"),
}
_LIGHT = {"infiniband": "infiniband_ports", "kernel_log": "kernel_ring", "roce_port": "roce_gids"}
# What a stage reads in place of a check's probe: journalctl may wait for a disk, a port's counters for firmware.
STAND_INS: dict[str, dict[str, str]] = {
    # Which cable a rail has, and which BMC it is; what they have counted and measured is burn-in's to read.
    "preflight": {"mlxlink": "cables", "redfish": "redfish_manager"},
    **dict.fromkeys(("health", "prolog", "epilog"), _LIGHT),
}
# Stages that need neither fingerprint nor identity, whose probes ask GPUs, NICs and the BMC.
_WITHOUT_FINGERPRINT = ("health", "prolog", "epilog")
# The checks that judge what a stress measured; each has the stress' name among its PROBES.
STRESS_CHECKS: dict[str, tuple[str, ...]] = {
    "cpu_stress": ("cpu_stress",),
    "dcgm_diag": ("dcgm_diag",),
    "gpu_stress": ("gpu_stress",),
    "gpu_telemetry": ("gpu_telemetry",),
    "memory_bandwidth": ("memory_bandwidth",),
    "memory_latency": ("memory_latency",),
    "nic_counters": ("nic_counter_growth",),
    "nic_load": ("nic_load",),
    "nvbandwidth": ("gpu_bandwidth",),
    "nvme_read": ("nvme_speed",),
}

# Findings that a stage gives about itself, not by a check in CHECKS.
_STAGE_FINDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "burn_in": (("burn_in", "host"),),
}
# What fabric rounds owe of every rail, as far as the fabric marks traffic and the class limits counters.
RAIL_CHECKS = ("rail_loopback", "rail_bandwidth", "rail_latency", "rail_counters", "rail_marking")
# What stage fabric owes of every rail besides, where the fleet's cables are verified.
CABLING_CHECK = "cabling"

# What acceptance owes of every node, as far as its class measures and limits it; NCCL's log shows the transport.
COLLECTIVE_CHECKS = (
    *("pair_bandwidth", "rail_bandwidth", "pair_latency", "data", "group_bandwidth", "group_latency", "straggler"),
    "train",
)
TRANSPORT_CHECK = "transport"
# What acceptance owes of every node whose GPUs are in one NVLink domain with those of its rack's other nodes.
NVLINK_RACK_CHECK = "nvlink_rack"
# What acceptance owes of every node where the fleet's policy asks for mini-clusters: their p99 at small messages.
MINI_CLUSTER_CHECK = "mini_cluster_latency"

# What every stage that runs in rounds owes: that no link which its traffic used lost its carrier.
CARRIER_CHECK = "carrier"
# What acceptance owes of every node: that its collectives did not stand still between what is timed, or in it.
STALL_CHECK = "stalls"

# The message size up to which the time counts, beyond it the bandwidth.
SMALL_BYTES = 2**20

# What stage storage owes of the shared storage that checkpoints go to.
STORAGE_CHECKS = (
    *("storage_write", "storage_read", "storage_data", "storage_metadata", "storage_clock"),
    *("storage_checkpoint", "storage_target"),
)
# All that stages in rounds conclude of a node or of its parts.
ROUND_CHECKS = (
    *(*RAIL_CHECKS, CABLING_CHECK, CARRIER_CHECK, STALL_CHECK, *STORAGE_CHECKS),
    *(*COLLECTIVE_CHECKS, MINI_CLUSTER_CHECK, TRANSPORT_CHECK, NVLINK_RACK_CHECK),
)
# What admission concludes from the burn-ins of many nodes; no node knows enough to.
COHORT_CHECKS = ("gpu_heat", "nic_load_spread")


# The package that holds this one: probes, checks and stresses lie beside it.
_PARENT = __name__.rsplit(".", 2)[0]


class _Modules(Mapping[str, T]):
    """The modules of one package by name."""

    def __init__(self, package: str) -> None:
        self._package = f"{_PARENT}.{package}"

    def __getitem__(self, name: str) -> T:
        try:
            return cast("T", importlib.import_module(f"{self._package}.{name}"))
        except ModuleNotFoundError as exc:
            raise KeyError(name) from exc

    def __iter__(self) -> Iterator[str]:
        # By path, not by import: it must do for a directory and in the zip archive that nodes run.
        paths = [f"{path}/{self._package.rpartition('.')[2]}" for path in sys.modules[_PARENT].__path__]
        return iter(sorted(module.name for module in pkgutil.iter_modules(paths)))

    def __len__(self) -> int:
        return len(list(iter(self)))


PROBES: Mapping[str, Probe] = _Modules("probes")
CHECKS: Mapping[str, Check] = _Modules("checks")
STRESSES: Mapping[str, Stress] = _Modules("stress")

_LISTED = {name for table in (STAGE_CHECKS, STRESS_CHECKS) for names in table.values() for name in names}
# A new check must not stay unasked because a list was forgotten.
STAGE_CHECKS["burn_in"] += tuple(name for name in CHECKS if name not in _LISTED)


def probes_of(stage: str) -> tuple[str, ...]:
    """Return the names of the probes that a stage runs, each once: its checks', fingerprint's and identity's."""
    checks = [CHECKS[name] for name in STAGE_CHECKS[stage]]
    names = {name for check in checks for name in (*check.PROBES, *getattr(check, "OPTIONAL_PROBES", ()))}
    if stage not in _WITHOUT_FINGERPRINT:
        from ..judging import fingerprint, identity  # noqa: PLC0415 -- start-up budget of health and hooks

        names |= {*fingerprint.PROBES, *identity.PROBES}
    stand_ins = STAND_INS.get(stage, {})
    return tuple(sorted({stand_ins.get(name, name) for name in names}))


def parsers(names: Iterable[str]) -> dict[str, Parser]:
    """Return the probes and stresses that parse the outputs of these names."""
    return {name: PROBES[name] if name in PROBES else STRESSES[name] for name in names}


def examine(stage: str, host: Host, expect: Expectations, *, loaded: bool = False) -> Examination:
    """Run a stage's probes on the host, each once, and judge what they gave.

    ``loaded`` says that a stress is running, so that checks which need an idle host are left for later.
    """
    return judge_stage(stage, collect(host, [PROBES[name] for name in probes_of(stage)], expect), expect, loaded=loaded)


def examine_for(name: str, host: Host, expect: Expectations) -> Examination:
    """Run the probes of one check on the host, each once, and judge what they gave by this check alone."""
    check = CHECKS[name]
    probes = {each: PROBES[each] for each in (*check.PROBES, *getattr(check, "OPTIONAL_PROBES", ()))}
    return judge(collect(host, list(probes.values()), expect), probes, [check], expect)


def judge_stage(
    stage: str, outputs: Mapping[str, Output], expect: Expectations, *, loaded: bool = False
) -> Examination:
    """Judge what a stage's probes gave; a stand-in's output may be there under its own name alone."""
    stand_ins = STAND_INS.get(stage, {})
    outputs = {**{name: outputs[other] for name, other in stand_ins.items() if other in outputs}, **outputs}
    probes = {name: PROBES[stand_ins.get(name, name)] for name in {*outputs, *probes_of(stage)}}
    checks = [CHECKS[name] for name in STAGE_CHECKS[stage]]
    asked = [check for check in checks if not (loaded and getattr(check, "IDLE_ONLY", False))]
    return judge(outputs, probes, asked, expect)


def applies(stress: str, expect: Expectations) -> bool:
    """Return whether a stress says anything about a host of this class; one that cannot be told does."""
    try:
        return any(CHECKS[check].subjects(expect) for check in STRESS_CHECKS[stress])
    except KeyError:
        return True


def judge_stress(
    name: str, outputs: Mapping[str, Output], expect: Expectations, beside: Mapping[str, Output] | None = None
) -> Examination:
    """Judge what a stress measured; ``outputs`` has its own, and those of probes that its checks also read.

    ``beside`` has what ran beside it: the other stresses of its step, and the probes of the last examination meanwhile.
    What its checks can do without is read from there alone, as an idle host says nothing of a load.
    """
    checks = [CHECKS[check] for check in STRESS_CHECKS[name]]
    needed = {name, "nvidia_smi", *(probe for check in checks for probe in check.PROBES)}
    optional = {probe for check in checks for probe in getattr(check, "OPTIONAL_PROBES", ())} & {*(beside or {})}
    given = {each: outputs[each] for each in sorted(needed) if each in outputs}
    given |= {each: (beside or {})[each] for each in sorted(optional)}
    return judge(given, parsers({*needed, *optional}), checks, expect)


def rail_checks(expect: Expectations) -> tuple[str, ...]:
    """Return the checks that fabric rounds owe of every rail; none where collectives use no RDMA rails.

    Nothing is owed of marks where the fabric declares none, or of counters where the class limits none: such a check
    would pass without having looked at anything.
    """
    if expect.fabric is None or expect.nic is None:
        return ()
    port, limits = expect.fabric.port, stated(expect.rdma).counters
    marked, counted = port and port.dscp_priority, any(limit is not None for limit in limits.values())
    left_out = {*(() if marked else ("rail_marking",)), *(() if counted else ("rail_counters",))}
    return tuple(check for check in RAIL_CHECKS if check not in left_out)


def required(stage: str, expect: Expectations, stresses: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the (check, part) pairs on which the stage owes a finding for this class.

    ``stresses`` are those of the burn-in profile that policy asks for. Raises ValueError for a stage that owes nothing,
    since "no requirement" would pass everybody, and KeyError when the expectations lack what a check needs.
    """
    if stage == "fabric":
        checks = rail_checks(expect)
        if checks:
            cabling = (CABLING_CHECK,) if stated(expect.fabric).verify_cabling else ()
            checks = (*checks, *cabling, CARRIER_CHECK)
        owed = [(check, subject) for check in checks for subject in rail_subjects(expect)]
        if not owed:
            raise ValueError("stage is fabric, expected a class with RDMA rails on a fabric of such")
        return owed
    if stage == "storage":
        if expect.checkpoint is None or expect.storage is None:
            raise ValueError("stage is storage, expected a declared checkpoint and a class with limits for storage")
        return [(check, "storage") for check in (*STORAGE_CHECKS, CARRIER_CHECK)]
    if stage == "acceptance":
        transport = (TRANSPORT_CHECK,) if owes_transport(expect) else ()
        rack = (NVLINK_RACK_CHECK,) if owes_nvlink_rack(expect) else ()
        checks = (*collective_checks(expect), *transport, *rack, STALL_CHECK, CARRIER_CHECK)
        return [(check, "network") for check in checks]
    if stage not in STAGE_CHECKS and stage not in _STAGE_FINDINGS:
        known = sorted({*STAGE_CHECKS, *_STAGE_FINDINGS, "fabric", "storage", "acceptance"})
        raise ValueError(f"stage is {stage!r}, expected one of {', '.join(known)}")
    names = [*STAGE_CHECKS.get(stage, ()), *(name for stress in stresses for name in STRESS_CHECKS[stress])]
    pairs = [(name, part) for name in dict.fromkeys(names) for part in CHECKS[name].subjects(expect)]
    return [*pairs, *_STAGE_FINDINGS.get(stage, ())]


def collective_checks(expect: Expectations) -> tuple[str, ...]:
    """Return the checks that acceptance owes of every node of a class, by what its collectives measure and limit."""
    collective = expect.collective
    sizes, limits = collective.pairs.sizes_bytes, collective.latency
    small = min(sizes) <= SMALL_BYTES and len(sizes) > 1
    left_out = {
        "rail_bandwidth": collective.ranks_per_node <= 1,
        "pair_latency": not small and all(limit.collective != "sendrecv" for limit in limits),
        "group_latency": all(limit.collective == "sendrecv" for limit in limits),
        "straggler": collective.straggler is None,
        "train": collective.train is None,
        MINI_CLUSTER_CHECK: expect.mini_clusters is None,
    }
    return tuple(check for check in (*COLLECTIVE_CHECKS, MINI_CLUSTER_CHECK) if not left_out.get(check))


def owes_transport(expect: Expectations) -> bool:
    """Return whether a class' acceptance shows by NCCL's log that its collectives went over the rails.

    Gloo keeps no such log, and where the fleet declares no RDMA fabric there is no road to prove.
    """
    if expect.fabric is None or expect.nic is None:
        return False
    return bool(expect.collective.backend == "nccl")


def owes_nvlink_rack(expect: Expectations) -> bool:
    """Return whether the GPUs of a class' hosts are in one NVLink domain with those of the rack's other hosts."""
    return expect.nvlink is not None and expect.nvlink.domain is not None
