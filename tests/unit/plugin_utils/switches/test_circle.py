"""A switch configured from its hand-over sheet passes the audit, and no line of the sheet can change unnoticed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

from .leaf import fleet_of
from .wiring import outputs_of, sheet_of, wrong

FABRICS = {
    "pfc only": {"routing": "ecmp"},
    "dcqcn": {"routing": "ecmp", "dcqcn": True},
    "no classes": {"routing": "ecmp", "qos": "best_effort", "dcqcn": False},
}


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_switch_configured_from_its_sheet_passes(system: str, fabric: dict[str, Any]) -> None:
    fleet = fleet_of(system, **fabric)
    assert wrong(fleet, outputs_of(fleet)) == []


@pytest.mark.parametrize("system", ["eos", "sonic"])
def test_switch_that_hashes_the_queue_pair_by_its_sheet_passes(system: str) -> None:
    fleet = fleet_of(system, routing="e_ecmp")
    assert wrong(fleet, outputs_of(fleet)) == []


def test_queue_pair_that_nvue_cannot_show_is_incomplete_by_name() -> None:
    fleet = fleet_of("cumulus", routing="e_ecmp")
    (finding,) = wrong(fleet, outputs_of(fleet))
    assert (finding.check, finding.subject, finding.verdict) == ("switch_ecmp", "tor-1", "incomplete")
    assert "no hash field for the destination queue pair" in finding.reason


def test_headroom_that_eos_does_not_show_is_incomplete_by_name() -> None:
    fleet = fleet_of("eos", 1)
    findings = wrong(fleet, outputs_of(fleet), ())
    assert {(finding.check, finding.verdict) for finding in findings} == {("switch_headroom", "incomplete")}
    assert len(findings) == 16


def full(system: str) -> Fleet:
    return fleet_of(system, 1, routing="ecmp" if system == "cumulus" else "e_ecmp", dcqcn=True)


# For people; timing of the watchdog beyond that it is on; what a routed port does anyway.
EOS_HARMLESS = re.compile(r"\s*(!.*|description .*|qos trust dscp|.* watchdog (action|default (polling|recovery)).*|)$")


def less(number: int) -> int:
    """Return a number that is smaller by a hundredth, or by one: thresholds are compared to half a hundredth."""
    return number - max(1, number // 100)


def eos_changes(sheet: str) -> Iterator[tuple[str, str]]:
    lines = sheet.splitlines()
    for index, line in enumerate(lines):
        if EOS_HARMLESS.match(line):
            continue
        # The addresses of links between switches are not declared, and so nobody asks whether those ports route.
        if line == "   no switchport" and "address" not in lines[index + 1]:
            continue
        yield f"{line} left out", "\n".join(lines[:index] + lines[index + 1 :])
        last = re.search(r"\d+(?!.*\d)", line.replace(" max-mark-probability 100", ""))
        if last and not line.startswith(("interface", "priority-flow-control pause", "   priority-flow-control")):
            changed = f"{line[: last.start()]}{less(int(last[0]))}{line[last.end() :]}"
            yield f"{line} to {changed}", "\n".join([*lines[:index], changed, *lines[index + 1 :]])


# Paths of values that the audit does not judge, each for one of the reasons above, or as nothing declared uses them.
TREE_HARMLESS = re.compile(
    r".*/(description|type|memory-percent|probability|red|robustness|polling-interval|ip-protocol|IP_PROTOCOL)"
    r"|.*/default-lossy/.*|.*/restoration_time|.*/green_drop_probability|.*/wred_green_enable"
    r"|/(TC_TO_QUEUE_MAP|MAP_PFC_PRIORITY_TO_QUEUE)/MUSTER/[01246]|/TC_TO_PRIORITY_GROUP_MAP/MUSTER/[012467]"
    r"|/MAP_PFC_PRIORITY_TO_QUEUE/MUSTER/7|/INTERFACE/[^|]*"
)


def tree_changes(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tree without each of its ends, and with a number in each of them changed."""

    def ends(at: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if isinstance(at, (dict, list)) and at:
            for key in at if isinstance(at, dict) else range(len(at)):
                yield from ends(at[key], (*path, key))
        else:
            yield path

    def changed(path: tuple[Any, ...], to: Any) -> Any:
        copy = json.loads(json.dumps(tree))
        inner = copy
        for key in path[:-1]:
            inner = inner[key]
        if to is None:
            del inner[path[-1]]
        else:
            inner[path[-1]] = to
        return copy

    for path in ends(tree, ()):
        value = tree
        for key in path:
            value = value[key]
        name = "/" + "/".join(map(str, path)).removeprefix("0/set/")
        if TREE_HARMLESS.fullmatch(name) or TREE_HARMLESS.fullmatch(f"{name}/{value}"):
            continue
        # A default may say the same as the sheet: those are not left out but turned round.
        if value not in ("on", "enable") and not name.endswith("mtu"):
            yield f"{name} left out", changed(path, None)
        other = {"on": "off", "enable": "disable", "l3": "l2", "drop": "none", "ecn_green": "ecn_none"}.get(str(value))
        if other is None and str(value).isdigit():
            other = type(value)(less(int(value))) if int(value) else None
        if other is not None and not name.endswith("detection_time"):
            yield f"{name} to {other}", changed(path, other)


def changes(system: str, sheet: str) -> Iterator[tuple[str, str]]:
    if system == "eos":
        yield from eos_changes(sheet)
    elif system == "cumulus":
        yield from ((name, yaml.safe_dump(tree)) for name, tree in tree_changes(yaml.safe_load(sheet)))
    else:
        text = "\n".join(line for line in sheet.splitlines() if not line.startswith("#"))
        yield from ((name, json.dumps(tree)) for name, tree in tree_changes(json.loads(text)))


@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_no_line_of_the_sheet_changes_unnoticed(system: str) -> None:
    fleet = full(system)
    sheet = sheet_of(fleet)
    assert wrong(fleet, outputs_of(fleet)) == []
    tried = [(name, wrong(fleet, outputs_of(fleet, sheet=text))) for name, text in changes(system, sheet)]
    assert len(tried) > 60
    assert [name for name, found in tried if not found] == []
