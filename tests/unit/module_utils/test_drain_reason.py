"""Whose word the reason of a drain is."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.in_service.health import reason_of
from ansible_collections.muster.cluster.plugins.module_utils.in_service.health_drain import DRAIN, LIFT, step_of
from ansible_collections.muster.cluster.plugins.module_utils.probes.heartbeat import Heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.slurm import drain_reason
from ansible_collections.muster.cluster.plugins.module_utils.slurm.scontrol_output import NodeState
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

ROLES = Path(__file__).resolve().parents[3] / "roles"
OWN = [
    "muster:health:xid:3f0c5a52-9b0e-4c58-8f3e-2d5c1b7a9e04",
    "muster:incomplete:gpu_memory:e1",
    "muster:incomplete:program:exit-137",
    "muster:boot:11111111-2222-3333-4444-555555555555",
    "muster: boot restarts this node",
    "muster: gpu_stack changes this node",
]
PEOPLES = [
    "",
    "fan tray",
    "Prolog error",
    "muster:",
    "muster: keep off, ask Ann",
    "muster: gpu",
    "muster: boot restarts this node, ask Ann",
    "muster:health:xid:e1 but keep",
    "muster:health:xid:e1\n",
    "muster:health:xid:",
    "muster:health:xid",
    "muster:boot:",
    "muster:boot:b1 : reboot ASAP",
    "muster:incomplete:disk e1",
    " muster:boot:b1",
    "Muster:boot:b1",
]


@pytest.mark.parametrize("reason", OWN)
def test_reason_of_musters_own_counts_by_root_and_slurm_alone(reason: str) -> None:
    assert drain_reason.is_own(reason, "root") and drain_reason.is_own(reason, "slurm")
    assert not any(drain_reason.is_own(reason, by) for by in ("", "ann", "muster", "nobody", "root2"))
    assert not drain_reason.is_own(drain_reason.as_others(reason), "root")


@pytest.mark.parametrize("reason", PEOPLES)
def test_every_other_word_is_a_persons(reason: str) -> None:
    assert not drain_reason.is_own(reason, "root")
    assert drain_reason.as_others(reason) == reason


@pytest.mark.parametrize("reason", ["Low CPUs", "Low TmpDisk, Low CPUs"])
def test_persons_drain_in_words_of_slurms_is_no_drain_of_slurms_once_restored(reason: str) -> None:
    assert drain_reason.for_registration(reason, "slurm") and not drain_reason.for_registration(reason, "ann")
    assert not drain_reason.for_registration(drain_reason.as_others(reason), "root")


def test_every_reason_that_is_written_is_known() -> None:
    """Those of roles and hooks, and of the health check; burn-in's is the code's own."""
    told = "\n".join(path.read_text() for path in ROLES.rglob("*") if path.is_file() and path.suffix in ("", ".yml"))
    written = re.findall(r'"(muster:[^"]*)"', told.replace("$status", "124"))
    assert {drain_reason.RESTART, drain_reason.CHANGE} < set(written)
    beats = [
        Heartbeat(1.0, "b-1", verdict, (Finding(check, "host", verdict),), evidence_id=str(uuid4()))
        for verdict, check in (("fail", "xid"), ("incomplete", "gpu_memory"), ("incomplete", "boot_preflight"))
    ]
    for reason in (*written, *map(reason_of, beats)):
        assert drain_reason.is_own(reason, "root"), reason


@pytest.mark.parametrize(
    ("reason", "by", "lifted", "replaced"),
    [
        ("muster:incomplete:disk:e1", "root", True, True),
        ("muster:boot:b1", "root", True, True),
        ("muster:incomplete:disk:e1", "ann", False, False),
        ("muster:boot:b1 but keep", "root", False, False),
        ("muster:incomplete:disk:e1, ask Ann", "root", False, False),
        ("muster:health:xid:e1", "root", False, False),
        ("Prolog error", "slurm", False, True),
        ("fan tray", "root", False, False),
    ],
)
def test_health_check_touches_its_own_drains_alone(reason: str, by: str, lifted: bool, replaced: bool) -> None:
    node = NodeState("IDLE+DRAIN", reason, by)
    assert step_of(node, "") == (LIFT if lifted else "")
    assert step_of(node, "muster:health:xid:e2") == (DRAIN if replaced else "")
    assert step_of(node, "muster:incomplete:disk:e2") == ""


def test_fault_stands_whatever_a_person_adds() -> None:
    """It closes the node; lifting asks for more."""
    assert drain_reason.fault_in("muster:health:xid:e1 but keep") == drain_reason.Fault("xid", "e1")
