"""Healthy recorded hosts and outputs, and which of them would be turned away at the first try.

Healthy is what ../shared/recorded/SOURCES.md says of a file. A host is a machine of which so much is recorded that a
class can be drafted from it; it is judged by that class, as a site's own nodes are. An output is judged by its rows;
those that are known to be refused, and stand in no table, are judged as tests/oracle does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import rejudged
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import draft_class
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.oracle.areas import untabled
from tests.placed import laid
from tests.typed import typed
from tests.unit.plugin_utils.drafting.hosts import collected

from .judged import ROWS, judged, outputs_of

CONFIDENCE = 0.95
# Healthy outputs that are known to be refused; tests/oracle holds what is said of them.
KNOWN_WRONG = Path(__file__).resolve().parents[1] / "oracle" / "known_wrong.yml"
REFUSED = "R-refused"


@dataclass(frozen=True)
class RecordedHost:
    """One healthy machine: its files, each with the probes that it answers.

    ``rails`` are the addresses of its rails where no recording tells them. ``expect`` is laid over the drafted class:
    what provisioning would have set before the host is judged.
    """

    name: str
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    rails: tuple[str, ...] | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tried:
    """What came of a healthy host or output; ``reasons`` is empty unless it was turned away."""

    name: str
    reasons: tuple[str, ...]


_GUEST = ("nvidia_smi", "nvlink", "topology")
HOSTS = (
    RecordedHost(
        "Dell XE9680 with eight H100",
        (
            ("lspci/lspci-vvv-dell-xe9680-hgx-h100.txt.gz", ("lspci",)),
            ("dmidecode/dmidecode-xe9680-system.txt", ("dmidecode",)),
            ("kernel/dmesg-boot-xe9680-h100-mlx5.log", ("kernel_log",)),
        ),
    ),
    RecordedHost(
        "host with eight H100, driver 570.86.15",
        (("nvidia-smi/qx-h100x8-570.86.15.xml", ("nvidia_smi",)),),
        rails=tuple(f"0000:{bus:02x}:00.0" for bus in range(0x11, 0x19)),
        expect={"gpu": {"persistence": False}},
    ),
    RecordedHost("guest with one H100", (("nvidia-smi/capture-h100-1gpu-590.48.01.txt", _GUEST),), rails=()),
    RecordedHost("guest with one H200", (("nvidia-smi/capture-h200-1gpu-590.48.01.txt", _GUEST),), rails=()),
)
# Healthy outputs that tell a machine's GPUs, of which no host is made.
NO_HOST = {
    "lspci/lspci-vvv-cx7-only.txt": "the NICs of the XE9680 above",
    "lspci/lspci-vvv-h100-gpus-only.txt": "the GPUs of the XE9680 above",
    "nvidia-smi/q-h100-idle-590.48.01.txt": "the guest with one H100 above",
    "nvidia-smi/q-h100-load-590.48.01.txt": "the guest with one H100 above",
    "nvidia-smi/q-page-retirement-8gpu-orig.txt": "one section of a report, which does not tell the GPUs' model",
    "nvidia-smi/query-gpu-h100-idle.csv": "a table of chosen fields, not a whole report",
    "nvidia-smi/qx-pro-6000-maxq-blackwell-v13.xml": "no class is shipped for a workstation card",
    "nvidia-smi/qx-a100-sxm4-v12.xml": "no class is shipped for A100, and one of four GPUs was left in",
}


def tried_hosts(recorded: Path) -> list[Tried]:
    """Return each healthy host of which all files are there, judged by the class that is drafted from it."""
    there = (host for host in HOSTS if all((recorded / file).exists() for file, _ in host.parts))
    return [Tried(host.name, turned_away(host, host_outputs(host, recorded))) for host in there]


def host_outputs(host: RecordedHost, recorded: Path) -> dict[str, Output]:
    """Return what was recorded of a host, by probe."""
    outputs: dict[str, Output] = {}
    for file, probes in host.parts:
        data = (recorded / file).read_bytes()
        for probe in probes:
            row = next(row for row in ROWS if (row.file, row.probe, row.verdict) == (file, probe, PASS))
            outputs[probe] = outputs_of(row, data)[probe]
    return outputs


def turned_away(
    host: RecordedHost, outputs: Mapping[str, Output], sound: Mapping[str, Output] | None = None
) -> tuple[str, ...]:
    """Return why these outputs do not pass by the class drafted from them, or from ``sound`` ones."""
    drafted = draft_class([collected(sound or outputs)], rails=host.rails)
    own = {"ours": {"extends": drafted.extends, **laid(drafted.values, host.expect)}}
    found = rejudged(outputs, typed(expectations_of("ours", own, "recorded")))
    return tuple(f"{each.check} {each.subject}: {each.reason}" for each in found if each.verdict != PASS)


def tried_outputs(recorded: Path) -> list[Tried]:
    """Return each healthy output, judged by its own checks for the machine that it is of."""
    refused = _refused()
    healthy = {file for file, truth in true_verdicts(recorded).items() if truth.lower().startswith("healthy")}
    rows = [row for row in ROWS if row.verdict == PASS and row.file in healthy]
    rows += [row for row in untabled(recorded) if row.file in refused]
    said: dict[str, list[str]] = {}
    # A format that nobody recorded is written by the tests themselves: it says nothing of a real machine.
    for result in (result for result in (judged(row, recorded) for row in rows) if not result.unverified):
        said.setdefault(result.row.file, []).extend([] if result.verdict == PASS else [result.said])
    return [Tried(file, tuple(said[file])) for file in sorted(said)]


def _refused() -> set[str]:
    known = yaml.safe_load(KNOWN_WRONG.read_text(encoding="utf-8"))["recorded"]
    return {case.split()[0] for case, why in known.items() if why.startswith(REFUSED)}


def true_verdicts(recorded: Path) -> dict[str, str]:
    """Return the true verdict of each file, from the last column of SOURCES.md."""
    lines = (recorded / "SOURCES.md").read_text(encoding="utf-8").splitlines()
    # A bar within a cell is written with a backslash.
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines if line.startswith("| ")]
    return {row[1]: row[-2] for row in cells if len(row) > 2 and "/" in row[1]}


def upper_bound(rejected: int, tried: int) -> float:
    """Return the share that is rejected at the most, with 95 % confidence: Clopper and Pearson, one-sided and exact.

    It is the share at which so few rejections, or fewer, would come in 5 of 100 such samples.
    """
    if rejected >= tried:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        share = (low + high) / 2
        terms = (math.comb(tried, k) * share**k * (1 - share) ** (tried - k) for k in range(rejected + 1))
        low, high = (share, high) if sum(terms) > 1 - CONFIDENCE else (low, share)
    return high


def in_words(what: str, tried: Sequence[Tried]) -> list[str]:
    """Return what a reader should know, a line each: how many were turned away, what that says of others, and who."""
    away = [each for each in tried if each.reasons]
    most = upper_bound(len(away), len(tried))
    lines = [f"{len(away)} of {len(tried)} healthy recorded {what} turned away at the first try."]
    if tried:
        three = "" if away else f"; the rule of three, 3/{len(tried)}, says {min(1.0, 3 / len(tried)):.1%}"
        how = f"Clopper-Pearson, one-sided{three}"
        lines.append(f"With 95 % confidence at most {most:.1%} of healthy {what} like these are ({how}).")
    return [*lines, *(f"TURNED AWAY {each.name}: {'; '.join(each.reasons)[:240]}" for each in away)]


def figures_of(hosts: Sequence[Tried], outputs: Sequence[Tried]) -> dict[str, dict[str, Any]]:
    """Return the figures for the bench."""
    away = sum(bool(each.reasons) for each in hosts)
    return {
        "healthy_rejected_first_try": {"value": away, "unit": "healthy recorded hosts turned away at the first try"},
        "healthy_hosts": {"value": len(hosts), "unit": "healthy recorded hosts"},
        "healthy_rejected_upper_bound": {
            "value": round(upper_bound(away, len(hosts)), 3),
            "unit": "of healthy hosts at the most, with 95 % confidence (Clopper-Pearson, one-sided)",
        },
        "healthy_outputs": {"value": len(outputs), "unit": "healthy recorded outputs, each judged by its own checks"},
        "healthy_outputs_rejected": {"value": sum(bool(each.reasons) for each in outputs), "unit": "of them"},
    }
