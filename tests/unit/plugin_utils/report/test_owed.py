"""What nodes in service owe stands in the report once, on however many nodes, in the words of admission."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.admission import judge
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Doubt
from ansible_collections.muster.cluster.plugins.plugin_utils.report.owed import owed_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.page import About, report_page
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Due, Verdict, verdicts_from

from tests.unit.plugin_utils import test_admission as admission

NODES = tuple(f"gpu-{number:03}" for number in range(1, 233))


def in_service(node: str, now: dict[str, str | None], doubts: tuple[Doubt, ...] = ()) -> Verdict:
    """Return what admission says of a node whose records have ids of their own, and whose fingerprint is ``now``."""
    items = [replace(admission.evidence(stage), id=f"{stage}-{node}", node=node) for stage in admission.STAGES[1:]]
    fingerprint = {**admission.FINGERPRINT, **now}
    first = replace(admission.evidence("preflight"), id=f"pre-{node}", node=node, fingerprint=fingerprint)
    case = replace(
        admission.WHOLE,
        node=node,
        records=admission.records(first, *items),
        fingerprint=fingerprint,
        identity={**admission.IDENTITY, "hostname": node, "slurmd_node": node},
        admitted_since=admission.NOW - admission.HOUR / 2,
        doubts=doubts,
    )
    judgement = judge(case, admission.POLICY, admission.NOW)
    assert judgement.state == "admitted"
    return verdicts_from([judgement.to_dict()])[0]


def remarks(verdicts: list[Verdict]) -> list[str]:
    """Return the lines of the table of what is accepted or owed."""
    _, heading, rest = report_page(verdicts, {}, About(1763640000.0)).partition("<h2>Accepted, or owed</h2>")
    table = rest.partition("</table>")[0] if heading else ""
    return [row for row in table.split("<tr>") if "Due again" in row]


def test_rollout_on_all_nodes_is_one_line() -> None:
    (line,) = remarks([in_service(node, {"bmc_firmware": "24.07"}) for node in NODES])
    assert '<td class="count">232<' in line
    assert "burn_in: bmc_firmware was bmc_firmware 1, is 24.07: one roll-out on 232 nodes<" in line
    assert "burn_in-gpu" not in line


def test_each_change_and_each_stage_is_a_line_of_its_own() -> None:
    """One node also has a doubt and a component that could not be read; another had another version before."""
    change: dict[str, str | None] = {"bmc_firmware": "24.07", "gpu_vbios": "96.00"}
    doubted = Doubt(NODES[3], "burn_in", "slow; with others too", "fabric")
    verdicts = [
        *(in_service(node, change) for node in NODES[:3]),
        in_service(NODES[3], {**change, "microcode": None}, (doubted,)),
        in_service(NODES[4], {"bmc_firmware": "24.08"}),
    ]
    said = [row.split('<td class="text">')[1].strip() for row in remarks(verdicts)]
    assert sorted(said) == [
        "acceptance: gpu_vbios was gpu_vbios 1, is 96.00: one roll-out on 4 nodes",
        "burn_in: bmc_firmware was bmc_firmware 1, is 24.07: one roll-out on 4 nodes",
        "burn_in: bmc_firmware was bmc_firmware 1, is 24.08",
        "burn_in: fabric doubts it: slow; with others too",
        "burn_in: gpu_vbios was gpu_vbios 1, is 96.00: one roll-out on 4 nodes",
        "burn_in: microcode unreadable now",
        "preflight: microcode unreadable now",
    ]


@pytest.mark.parametrize(
    ("reason", "owed"),
    [
        ("evidence a-1: bios was 1, is 2", ["bios was 1, is 2"]),
        (
            "evidence a-1: bios was 1, is 2; fabric doubts it: slow; odd",
            ["bios was 1, is 2", "fabric doubts it: slow; odd"],
        ),
        (
            "gpu_vbios unreadable in evidence a-1; nccl unreadable now",
            ["gpu_vbios unreadable in its evidence", "nccl unreadable now"],
        ),
        (
            "evidence a-1: judged by other rules than those of today: cpu",
            ["judged by other rules than those of today: cpu"],
        ),
        # What an identity differs in stays together.
        ("evidence a-1: not shown to be of this machine: a; b", ["not shown to be of this machine: a; b"]),
        ("fabric doubts it: slow", ["fabric doubts it: slow"]),
        ("", [""]),
    ],
)
def test_reason_is_taken_apart_without_losing_words(reason: str, owed: list[str]) -> None:
    assert list(owed_of(Due("burn_in", reason))) == owed
