"""Whatever becomes of a tool's output, no parser raises and no sick host passes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    STAGE_CHECKS,
    STAND_INS,
    STRESS_CHECKS,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .cases import case, raised, verdict
from .mutation import ODD, mutated
from .sick import NO_FAULT, SICK, Sick, healthy, known

ASKED = sorted({name for names in (*STAGE_CHECKS.values(), *STRESS_CHECKS.values()) for name in names})
# What an HGX H100 on a plain network owes nothing of.
NOT_OWED = (
    "gpu_retired_pages",
    "nccl_version",
    "mounts",
    "local_drives",
    "nvlink_subnet_manager",
    "nvlink_domain",
    "imex",
)
HOSTS = sorted({*((check, "") for check in ASKED if check not in NOT_OWED), *((s.check, s.variant) for s in SICK)})
# A seed that is slow to parse is no reason to try less. The long run is `make bench`.
# The same cases every time: `make bench` tries others by the hundred thousand.
PATIENT = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def named(row: Sick) -> str:
    return f"{row.check} by {row.old[:30]}"


@pytest.mark.parametrize(("check", "variant"), HOSTS)
def test_check_passes_its_healthy_host(check: str, variant: str) -> None:
    assert verdict(check, {}, variant) == PASS


# As rdma-core and systemd call the rails from the next boot on, and as the kernel does where a card was found before.
NAMES: dict[str, Callable[[re.Match[str]], str]] = {
    "persistent": lambda name: f"{'rocep' if name[1] == 'mlx5_' else 'enp'}{20 + int(name[2])}s0",
    "shifted": lambda name: f"{name[1]}{int(name[2]) + 1}",
}
_NAME = re.compile(r"\b(mlx5_|rdma)(\d)\b")
NAMING = [
    check
    for check in ASKED
    if any(
        _NAME.search(healthy(name)) for name in (*CHECKS[check].PROBES, *getattr(CHECKS[check], "OPTIONAL_PROBES", ()))
    )
]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("check", NAMING)
def test_check_passes_its_healthy_host_whatever_the_system_calls_its_nics(check: str, names: str) -> None:
    probes = (*CHECKS[check].PROBES, *getattr(CHECKS[check], "OPTIONAL_PROBES", ()))
    given = {name: Output(_NAME.sub(NAMES[names], healthy(name))) for name in probes}
    assert verdict(check, given) == PASS


@pytest.mark.parametrize("row", SICK, ids=named)
def test_fault_is_found_while_the_output_is_whole(row: Sick) -> None:
    assert verdict(row.check, {row.probe: Output(row.text())}, row.variant) == row.verdict


def test_every_check_has_a_fault_to_find() -> None:
    assert {row.check for row in SICK} | {*NO_FAULT} == set(ASKED)


def test_every_probe_has_a_healthy_output() -> None:
    probes = {
        name for check in ASKED for name in (*CHECKS[check].PROBES, *getattr(CHECKS[check], "OPTIONAL_PROBES", ()))
    }
    assert probes | {name for stand_ins in STAND_INS.values() for name in stand_ins.values()} <= set(known())


# Read as a file, which has no exit status.
FILES = ("boot_id", "cmdline", "clocksource", "cpuinfo", "heartbeat", "meminfo")


@pytest.mark.parametrize("check", [check for check in ASKED if CHECKS[check].PROBES and (check, "") in HOSTS])
def test_good_text_of_a_tool_that_failed_passes_nobody(check: str) -> None:
    for name in CHECKS[check].PROBES:
        # Each of several outputs in one says under its heading how it ended.
        text = healthy(name).replace(" <==\n", " <== (exit status 1: Killed)\n")
        if name not in FILES:
            assert verdict(check, {name: Output(text, "Killed\n", 1)}) != PASS, name


@pytest.mark.parametrize("name", known())
@PATIENT
@given(rng=st.randoms(use_true_random=False))
def test_parser_raises_nothing_but_unreadable(name: str, rng: random.Random) -> None:
    text, mutations = mutated(rng, healthy(name), ODD)
    assert raised(name, text) == "", mutations


@pytest.mark.parametrize("row", SICK, ids=named)
@PATIENT
@given(rng=st.randoms(use_true_random=False))
def test_sick_host_never_passes(row: Sick, rng: random.Random) -> None:
    tried = case(rng, [row])
    assert tried.wrong == "", tried.mutations


# What passed in a long run: the fault stands there, and what was lost or doubled beside it hid it.
HIDDEN = [
    ("gpu_power", "nvidia_smi", "", r"<utilization>\s+<gpu_util>[^<]+(</gpu_util>)", r"<gpu_util>ERR!\1<utilization>"),
    ("gpu_telemetry", "gpu_telemetry", "", r'("reasons_seconds": \{)', r'\1"hw_ther?al_slowdown": 93.0, '),
    ("nic_physical", "mlxlink", "", r'"DPActivated"', '"DPInit", "DPActivated"'),
    (
        "bmc_sensors",
        "redfish",
        "redfish",
        r'("Name": "FAN3"[^}]*?)"Status": \{([^}]*"Health": )"OK"\s*\}',
        r'\1\2"Critical"',
    ),
    (
        "nic_pcie_settings",
        "lspci",
        "",
        r"(?s)(4d:00\.0 Ethernet.*?)\s+RlxdOrd[^\n]*(\s+MaxPayload 256 bytes, MaxReadReq )4096(.*?)\n\n[^\n]+\n"
        r"\s+Control:[^\n]+",
        r"\1\g<2>512\3",
    ),
]


@pytest.mark.parametrize(("check", "probe", "variant", "old", "new"), HIDDEN, ids=[row[0] for row in HIDDEN])
def test_fault_beside_which_something_is_damaged_is_not_hidden(
    check: str, probe: str, variant: str, old: str, new: str
) -> None:
    text, count = re.subn(old, new, healthy(probe, variant), count=1)
    assert count == 1
    assert verdict(check, {probe: Output(text)}, variant) != PASS
