"""Processor, memory, kernel settings and PCI of a lab host: the layout of the tools, and what each fault becomes."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab
import lab_files
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import collect, judge
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from lab_state import declared

from tests.placed import PLACED
from tests.typed import typed

CHECKS = (
    *("cpu", "cpu_governor", "microcode", "memory", "dimms", "memory_errors", "numa", "swap", "hugepages"),
    *("kernel_command_line", "pcie_links", "acs", "clocksource"),
)
GPU = "0000:85:00.0"


def shapes(text: str) -> set[str]:
    """Return the lines of lspci without addresses, names and numbers, which differ from machine to machine."""
    lines = (re.sub(r"^\S+ ([^:]+): .*", r"\1", line) if line[:1].strip() else line for line in text.splitlines())
    return {re.sub(r"[+-]|ok|downgraded|\b[0-9a-f]+\b|x\d+|[\d.]+|: \w+$", "#", line) for line in lines}


def test_lspci_prints_lines_of_a_recorded_one(
    tool: Callable[..., subprocess.CompletedProcess[bytes]], recorded: Path
) -> None:
    real = gzip.decompress((recorded / "lspci" / "lspci-vvv-dell-xe9680-hgx-h100.txt.gz").read_bytes()).decode()
    ours = tool("lspci", "-D", "-vv").stdout.decode()
    assert shapes(ours) <= shapes(real)
    assert ours.endswith("\n\n") and real.endswith("\n\n")


def test_dmidecode_has_the_head_of_a_recorded_one(
    tool: Callable[..., subprocess.CompletedProcess[bytes]], recorded: Path
) -> None:
    real = (recorded / "dmidecode" / "dmidecode-xe9680-system.txt").read_text(encoding="utf-8")
    ours = tool("dmidecode", "-t", "memory").stdout.decode()
    assert ours.splitlines()[:4] == real.splitlines()[:4]
    heading = r"Handle 0x[0-9A-F]{4}, DMI type \d+, \d+ bytes"
    assert re.fullmatch(heading, real.splitlines()[4]) and re.fullmatch(heading, ours.splitlines()[4])


@pytest.mark.parametrize(
    ("faults", "finding", "answer"),
    [
        ({"dimms_missing": ["A3"]}, ("dimms", "host"), ("fail", "reseat")),
        ({"dimms_missing": ["A3"]}, ("numa", "host"), ("fail", "reseat")),
        ({"dimm_values": {"B2": {"speed_mts": 4000}}}, ("dimms", "dimm B2"), ("fail", "reseat")),
        ({"dimm_errors": {"A3": {"uncorrectable": 1}}}, ("memory_errors", "dimm A3"), ("fail", "replace")),
        ({"dimm_errors": {"A3": {"correctable": 7}}}, ("memory_errors", "host"), ("pass", "investigate")),
        ({"swap_mib": 8192}, ("swap", "host"), ("fail", "investigate")),
        ({"hugepages": {"2048": 512}}, ("hugepages", "host"), ("fail", "investigate")),
        ({"cpu_governor": "powersave"}, ("cpu_governor", "cpu"), ("fail", "investigate")),
        ({"cpu_microcode": {"7": "0x2b000590"}}, ("microcode", "cpu"), ("fail", "investigate")),
        ({"kernel_command_line": "ro iommu=pt numa=off"}, ("kernel_command_line", "host"), ("fail", "investigate")),
        ({"clocksource": "hpet"}, ("clocksource", "host"), ("fail", "investigate")),
        ({"numa_nodes": 8}, ("numa", "host"), ("fail", "investigate")),
        ({"pci_links": {GPU: {"width": 8}}}, ("pcie_links", f"gpu SXM6 {GPU}"), ("fail", "reseat")),
        ({"pci_links": {"0000:3c:00.0": {"width": 8}}}, ("pcie_links", "nic 0000:3c:00.0"), ("fail", "reseat")),
        ({"acs_enabled": [GPU]}, ("acs", "host"), ("fail", "investigate")),
        ({"tool_faults": {"lspci": "truncate"}}, ("acs", "host"), ("incomplete", "investigate")),
        ({"tool_faults": {"dmidecode": "empty"}}, ("dimms", "host"), ("incomplete", "investigate")),
    ],
)
def test_a_fault_is_found_and_named(
    host_place: Path, set_faults: Callable[..., None], faults: dict[str, Any], finding: tuple[str, str], answer: Any
) -> None:
    set_faults(**faults)
    found = judged(host_place)[finding]
    assert (found.verdict, found.action) == answer, json.dumps(faults)


def test_a_healthy_host_passes(host_place: Path) -> None:
    assert {finding.verdict for finding in judged(host_place).values()} == {"pass"}


def test_a_host_as_its_kernel_starts_has_another_governor_than_its_class_declares(tmp_path: Path) -> None:
    state = declared("gpu-01", None, {})
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    lab.install_tools(tmp_path, state)
    lab_files.write_files(tmp_path, state)
    assert {check for (check, _), finding in judged(tmp_path).items() if finding.verdict != "pass"} == {"cpu_governor"}


def judged(place: Path) -> dict[tuple[str, str], Any]:
    """Return the findings of the host's static checks."""
    expect = expectations_of("hgx_h100", PLACED, "lab")
    checks = [registry.CHECKS[name] for name in CHECKS]
    probes = {name: registry.PROBES[name] for check in checks for name in check.PROBES}
    outputs = collect(LocalHost(f"{place}/bin:/usr/bin:/bin", str(place / "root")), probes.values(), typed(expect))
    findings = judge(outputs, probes, checks, typed(expect)).findings
    return {(finding.check, finding.subject): finding for finding in findings}
