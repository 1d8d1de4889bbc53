"""Whole audits over a real SSH server: 64 ports of each system, and every way in which a switch fails to answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_audit import (
    SYSTEMS,
    Asking,
    Audited,
    audit,
    audited,
    lines_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import SwitchPlan
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_session import Limits, Login

from .leaf import fleet_of, leaf_of
from .ssh_switch import PASSWORD, USER, SshSwitch
from .wiring import LEFT_OUT, outputs_of, sheet_of, wired

PROMPTS = {"eos": "tor-1#", "sonic": "admin@tor-1:~$ ", "cumulus": "cumulus@tor-1:mgmt:~$ "}
WRONG = {"eos": ("Ethernet3/1", "Ethernet40/1"), "sonic": ("Ethernet8", "Ethernet156"), "cumulus": ("swp3", "swp40")}


def asked(plan: SwitchPlan, switch: SshSwitch, tmp_path: Path, **changes: Any) -> Audited:
    here = replace(plan, switch=replace(plan.switch, address=switch.address))
    login = Login(USER, PASSWORD, known_hosts=switch.known_hosts(tmp_path / "known_hosts"), port=switch.port)
    limits = Limits(**{"connect_seconds": 20, "command_seconds": 20, "switch_seconds": 60, **changes.pop("limits", {})})
    return audited(here, Asking(replace(login, **changes), limits, leave_out=LEFT_OUT[plan.switch.system]))


def reasons(result: Audited) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in result.findings:
        found.setdefault(finding.check.removeprefix("switch_"), set()).add(finding.reason)
    return found


@pytest.mark.parametrize("shell_only", [False, True], ids=["command by command", "in a shell"])
@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_switch_of_64_ports_as_declared_passes(system: str, shell_only: bool, tmp_path: Path) -> None:
    fleet = fleet_of(system, dcqcn=True)
    plan = leaf_of(fleet)
    assert len(plan.ports) == 64
    with SshSwitch(outputs_of(fleet), shell_only, PROMPTS[system]).running() as switch:
        result = asked(plan, switch, tmp_path)
    assert (result.verdict, result.findings) == ("pass", ())
    assert result.passed["switch_pfc"] == result.passed["switch_cable"] == 64


@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_two_wrong_ports_of_64_are_found_and_nothing_else_is_blamed(system: str, tmp_path: Path) -> None:
    fleet = fleet_of(system)
    plan = leaf_of(fleet)
    first, second = WRONG[system]
    wires = wired(plan)
    wires[second].errors, wires[second].neighbours = 12, [("ctsw-4", "Ethernet1/9", "uplink")]
    sheet = sheet_of(fleet)
    lines = sheet.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if re.search(rf'(interface |^ +"?){first}("?: \{{|:|$)', line))
    low = next(index for index, line in enumerate(lines[at:], at) if "9000" in line)
    if system == "sonic":
        port = lines.index(f'    "{first}": {{\n', next(i for i, line in enumerate(lines) if '"PORT":' in line))
        low = port + 2
    lines[low] = lines[low].replace("9000", "1500")
    with SshSwitch(outputs_of(fleet, wires, "".join(lines))).running() as switch:
        result = asked(plan, switch, tmp_path)
    found = {(each.check, each.subject, each.verdict) for each in result.findings}
    assert found == {
        ("switch_mtu", f"tor-1 {first}", "fail"),
        ("switch_errors", f"tor-1 {second}", "fail"),
        ("switch_cable", f"tor-1 {second}", "fail"),
    }
    said = "\n".join(lines_of(result))
    assert f"fail: {first}: mtu: found 1500, expected 9000 B" in said
    assert f"fail: {second}: cable: found ctsw-4 Ethernet1/9 or uplink, expected {plan.ports[second].other}" in said


def eos(**faults: str) -> tuple[SwitchPlan, SshSwitch]:
    fleet = fleet_of("eos", 1)
    commands = SYSTEMS["eos"].COMMANDS
    return leaf_of(fleet), SshSwitch(
        outputs_of(fleet), faults={commands[name]: fault for name, fault in faults.items()}
    )


@pytest.mark.parametrize(
    ("faults", "questions", "reason"),
    [
        ({"pfc": "slow"}, "pfc", "no end in time, after"),
        ({"pfc": "refused"}, "pfc", r"refused: % Invalid input \(privileged mode required\)"),
        ({"interfaces": "cut"}, "port mtu errors discards", "no complete JSON"),
        ({"lldp": "cut"}, "cable", "no complete JSON"),
        ({"config": "cut"}, "pfc_watchdog address ecmp", 'its last line is not "end"'),
        ({"maps": "cut"}, "dscp", "of 64 code points"),
        ({"watchdog": "refused"}, "pause_storms", "refused"),
    ],
    ids=str,
)
def test_answer_that_cannot_be_used_is_incomplete_with_the_reason(
    faults: Mapping[str, str], questions: str, reason: str, tmp_path: Path
) -> None:
    plan, switch = eos(**faults)
    with switch.running():
        result = asked(plan, switch, tmp_path, limits={"command_seconds": 2 if "slow" in faults.values() else 20})
    assert result.verdict == "incomplete"
    assert set(reasons(result)) == set(questions.split())
    assert all(re.search(reason, each) for said in reasons(result).values() for each in said)
    (name,) = faults
    assert all(SYSTEMS["eos"].COMMANDS[name] in each for said in reasons(result).values() for each in said)


def test_connection_that_drops_in_the_middle_leaves_nothing_after_it_passed(tmp_path: Path) -> None:
    plan, switch = eos(interfaces="dropped")
    with switch.running():
        result = asked(plan, switch, tmp_path)
    said = reasons(result)
    assert "connection closed in the middle" in "".join(said["mtu"])
    assert {"cable", "dscp", "pfc", "trust", "pause_storms"} <= set(said)
    assert set(result.passed) == {"switch_pfc_watchdog", "switch_address", "switch_ecmp"}


def test_table_that_ends_within_a_row_is_incomplete(tmp_path: Path) -> None:
    fleet = fleet_of("sonic", 1)
    outputs = outputs_of(fleet)
    outputs["show interfaces status"] = outputs["show interfaces status"][:-40]
    outputs["show lldp table"] = outputs["show lldp table"].rsplit("\n", 3)[0]
    with SshSwitch(outputs).running() as switch:
        result = asked(leaf_of(fleet), switch, tmp_path)
    said = reasons(result)
    assert set(said) == {"port", "mtu", "cable"}
    assert "cut short in the row" in "".join(said["mtu"])
    assert "no total at its end" in "".join(said["cable"])


@pytest.mark.parametrize(
    ("prompt", "faults", "reason"),
    [
        ("Enter your choice: ", {}, "Enter your choice:'"),
        ("tor-1#", {"config": "pager"}, "a pager holds back the rest"),
        ("tor-1#", {"config": "dropped"}, "connection closed in the middle"),
        ("tor-1#", {"config": "slow"}, "no prompt in time"),
    ],
    ids=["unknown prompt", "pager", "dropped", "slow"],
)
def test_shell_that_goes_astray_makes_everything_after_it_incomplete(
    prompt: str, faults: Mapping[str, str], reason: str, tmp_path: Path
) -> None:
    plan, switch = eos(**faults)
    switch.shell_only, switch.prompt = True, prompt
    with switch.running():
        result = asked(plan, switch, tmp_path, limits={"command_seconds": 2})
    assert result.verdict == "incomplete"
    assert result.passed == {}
    assert all(reason in each or "connection" in each for said in reasons(result).values() for each in said)
    assert any(reason in each for said in reasons(result).values() for each in said)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"password": "wrong"}, "password of user audit refused"),
        ({"user": "nobody"}, "password of user nobody refused"),
        ({"known_hosts": "/nonexistent"}, "host key of 127.0.0.1 is not in /nonexistent"),
        ({"port": 1}, "no connection to 127.0.0.1"),
    ],
    ids=str,
)
def test_switch_that_cannot_be_logged_in_to_is_incomplete(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    plan, switch = eos()
    with switch.running():
        result = asked(plan, switch, tmp_path, **changes)
        assert switch.heard == []
    (finding,) = result.findings
    assert (finding.check, finding.verdict) == ("switch_session", "incomplete")
    assert reason in finding.reason
    assert PASSWORD not in finding.reason and "wrong" not in finding.reason


def test_unknown_host_key_is_taken_only_where_that_is_said(tmp_path: Path) -> None:
    plan, switch = eos()
    with switch.running():
        result = asked(plan, switch, tmp_path, known_hosts="/nonexistent", accept_unknown=True)
    assert result.verdict == "pass"


def test_changed_host_key_is_never_taken(tmp_path: Path) -> None:
    plan, switch = eos()
    with switch.running():
        other = switch.known_hosts(tmp_path / "other", paramiko.ECDSAKey.generate())
        result = asked(plan, switch, tmp_path, known_hosts=other, accept_unknown=True)
    assert "is not the one in" in result.findings[0].reason


@pytest.mark.parametrize("shell_only", [False, True])
@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_nothing_but_the_fixed_commands_is_ever_sent(system: str, shell_only: bool, tmp_path: Path) -> None:
    fleet = fleet_of(system, 1)
    plan = leaf_of(fleet)
    with SshSwitch(outputs_of(fleet), shell_only, PROMPTS[system]).running() as switch:
        asked(plan, switch, tmp_path)
    module = SYSTEMS[system]
    of_ports = [text.format(port=port) for text in module.PORT_COMMANDS.values() for port in plan.ports]
    fixed = [*module.COMMANDS.values(), *of_ports]
    assert sorted(switch.heard) == sorted([*(module.PREPARE if shell_only else ()), *fixed])
    assert all(re.match(r"(nv )?(config )?show |terminal (length|width) \d+$", command) for command in switch.heard)
    assert not any(character in "".join(switch.heard) for character in ";&`$\n<>")


def test_all_commands_of_a_slow_switch_end_in_time(tmp_path: Path) -> None:
    plan, switch = eos()
    switch.delay_seconds = 0.5
    with switch.running():
        result = asked(plan, switch, tmp_path, limits={"switch_seconds": 1.2})
    assert result.verdict == "incomplete"
    assert "not asked, as the switch took all of 1.2 s" in "".join(
        each for said in reasons(result).values() for each in said
    )


def test_switches_are_asked_side_by_side_and_told_in_order(tmp_path: Path) -> None:
    fleet = fleet_of("eos", 1)
    plan = leaf_of(fleet)
    # Asked one after the other they would wait for each other in vain.
    with SshSwitch(outputs_of(fleet), together=threading.Barrier(20, timeout=30)).running() as switch:
        login = Login(USER, PASSWORD, known_hosts=switch.known_hosts(tmp_path / "known"), port=switch.port)
        here = replace(plan.switch, address=switch.address)
        plans = [replace(plan, switch=replace(here, name=f"tor-{number}")) for number in range(20)]
        results = audit(plans, Asking(login, parallel=20, leave_out=("headroom",)))
    assert [result.name for result in results] == [plan.switch.name for plan in plans]
    assert {result.verdict for result in results} == {"pass"}
