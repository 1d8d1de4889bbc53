"""A GB200 tray, examined whole: healthy it passes all that its class owes, and what is sick is found."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    PROBES,
    judge_stage,
    probes_of,
    required,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import COMPONENTS, fingerprint_of
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, Finding

from tests.grace import tray

# The stage gives this finding about itself when its loads are done.
BURN_IN = ("burn_in", "host")


def judged(stage: str, given: Mapping[str, Output] | None = None, **over: object) -> tuple[Finding, ...]:
    """Return what a stage concludes of a tray with these outputs in place of the healthy ones."""
    return judge_stage(stage, {**tray.outputs(stage), **(given or {})}, tray.expectations(**over)).findings


def wrong(findings: tuple[Finding, ...]) -> dict[tuple[str, str], str]:
    return {(each.check, each.subject): each.verdict for each in findings if each.verdict != PASS}


@pytest.mark.parametrize("stage", ["preflight", "burn_in"])
def test_healthy_tray_passes_all_that_is_owed(stage):
    findings = judged(stage)
    assert wrong(findings) == {}
    assert {(each.check, each.subject) for each in findings} >= {*required(stage, tray.expectations())} - {BURN_IN}


def test_every_component_of_the_fingerprint_can_be_read():
    found = tray.outputs("preflight")
    names = {"mlxlink": "cables", "redfish": "redfish_manager"}
    values = {}
    for name in probes_of("preflight"):
        try:
            values[name] = PROBES[name].parse(found[name])
        except Exception:  # noqa: BLE001 -- what is not there is None, as in an examination
            values[name] = None
    values |= {name: values.get(other) for name, other in names.items()}
    fingerprint = fingerprint_of(values, tray.expectations())
    assert [name for name in COMPONENTS if fingerprint[name] is None] == []
    assert fingerprint["cpus"] == "2 x Arm 0x41 0xd4f r0p0"
    assert fingerprint["microcode"] == "none"


def changed(probe: str, pattern: str, text: str, count: int = 1) -> dict[str, Output]:
    before = tray.outputs("burn_in")[probe].stdout
    after = re.sub(pattern, text, before, count=count)
    assert after != before
    return {probe: Output(after)}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        # A GPU that is gone.
        (
            lambda: changed(
                "nvidia_smi", r'(?s)(<attached_gpus>)4(.*)\t<gpu id="00000018:01:00.0">.*?</gpu>\n', r"\g<1>3\g<2>"
            ),
            {("gpu_inventory", "gpu GPU2 0018:01:00.0"): "fail"},
        ),
        # A socket that is gone, and one of which the kernel runs fewer CPUs.
        (lambda: changed("lscpu", r'("Socket\(s\):", "data": )"2"', r'\1"1"'), {("cpu", "host"): "fail"}),
        (lambda: changed("numa", r"72-143", "72-142"), {("numa", "host"): "fail"}),
        (lambda: changed("cpuinfo", r"(?s)processor\t: 143\n.*?\n\n", ""), {("microcode", "cpu"): "incomplete"}),
        # A CPU of another revision, and one whose numbers cannot be read.
        (lambda: changed("cpuinfo", r"CPU revision\t: 0", "CPU revision\t: 1"), {("microcode", "cpu"): "fail"}),
        (lambda: changed("cpuinfo", r"CPU part\t: 0xd4f\n", ""), {("microcode", "cpu"): "incomplete"}),
        (lambda: changed("cpuinfo", r"CPU part\t: 0xd4f\n", "", 0), {("microcode", "cpu"): "incomplete"}),
        # GPU memory that is not online, or is where the class has none.
        (lambda: {"numa": tray.numa((2, 10, 18))}, {("numa", "host"): "fail"}),
        (lambda: {"numa": tray.numa((2, 10, 18, 26, 27))}, {("numa", "host"): "fail"}),
        (lambda: {"numa": Output(rc=None)}, {("numa", "host"): "incomplete", ("memory", "host"): "incomplete"}),
        # Less memory of one processor: of the GPUs' nobody takes it for the host's.
        (lambda: changed("numa", r"Node 1 MemTotal: +\d+", "Node 1 MemTotal: 401408000"), {("memory", "host"): "fail"}),
        # One GPU of another domain.
        (
            lambda: changed("nvidia_smi", tray.UUID, "00000000-0000-0000-0000-00000000beef"),
            {("nvlink_domain", "host"): "fail"},
        ),
        # A GPU that the tool puts beside the other processor's CPUs, or beside both.
        (
            lambda: changed("topology", r"0-71\t0,3-9,11-17", "72-143\t1,19-25,27-33"),
            {("gpu_affinity", "gpu GPU0 0008:01:00.0"): "fail"},
        ),
        (
            lambda: changed("topology", r"0-71\t0,3-9", "0-71\t0-9"),
            {("gpu_affinity", "gpu GPU0 0008:01:00.0"): "incomplete"},
        ),
        (lambda: changed("clocksource", "arch_sys_counter", "jiffies"), {("clocksource", "host"): "fail"}),
        # An x86 host under the name of a tray.
        (lambda: changed("lscpu", "aarch64", "x86_64"), {("cpu", "host"): "fail"}),
    ],
)
def test_sick_tray_is_found(given, found):
    verdicts = wrong(judged("burn_in", given()))
    assert {part: verdicts.get(part) for part in found} == found


def test_tray_whose_driver_keeps_gpu_memory_to_itself_is_declared_so():
    memory = {"numa": {"gpu_memory_nodes": 0}}
    topology = changed("topology", r"0,3-9,11-17\t\t\d+", "0,2-17\t\tN/A", 0)["topology"].stdout
    topology = re.sub(r"1,19-25,27-33\t\t\d+", "1,18-33\t\tN/A", topology)
    given = {"numa": tray.numa(()), "topology": Output(topology)}
    assert wrong(judged("burn_in", given, **memory)) == {}
    assert wrong(judged("burn_in", {"numa": tray.numa((2,))}, **memory)) == {("numa", "host"): "fail"}
