"""The playbooks, against switches behind a real SSH server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.modules import switch_audit as documented
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_judging import QUESTIONS

from tests import warm_ansible

from ..plugin_utils.switches.leaf import declared, fleet_of, leaf_of
from ..plugin_utils.switches.ssh_switch import PASSWORD, USER, SshSwitch
from ..plugin_utils.switches.wiring import outputs_of, wired

ROOT = Path(__file__).resolve().parents[3]
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    data = declared("eos", 1)
    data["ledger"]["url"] = f"sqlite:///{tmp_path}/ledger.sqlite"
    (tmp_path / "site.fleet.yml").write_text(yaml.safe_dump(data))
    return tmp_path


def play(site: Path, playbook: str, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    (site / "variables.json").write_text(json.dumps(variables))
    return warm_ansible.run(
        [
            ANSIBLE,
            "-i",
            site / "site.fleet.yml",
            *arguments,
            "-e",
            f"@{site}/variables.json",
            ROOT / "playbooks" / playbook,
        ],
        cwd=site,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        | {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1"}
        | {"ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "1"},
    )


def audit(site: Path, switch: SshSwitch, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    given = {
        "switches": "tor-1",
        "switch_audit_user": USER,
        "switch_audit_password": PASSWORD,
        "switch_audit_known_hosts": switch.known_hosts(site / "known_hosts"),
        "switch_audit_port": switch.port,
        "switch_audit_leave_out": ["headroom"],
    }
    return play(site, "switch_audit.yml", *arguments, **{**given, **variables})


def switch(**errors: int) -> SshSwitch:
    fleet = fleet_of("eos", 1)
    wires = wired(leaf_of(fleet))
    for port, count in errors.items():
        wires[port.replace("_", "/")].errors = count
    return SshSwitch(outputs_of(fleet, wires), address="127.0.0.11")


def test_audit_of_a_right_switch_passes_and_writes_the_report(site: Path) -> None:
    with switch().running() as here:
        run = audit(site, here)
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads((site / "build/switch_audit/report.json").read_text())
    assert (report["cluster"], report["verdict"], report["left_out"]) == ("east", "pass", ["headroom"])
    assert report["switches"]["tor-1"]["findings"] == []
    assert report["switches"]["tor-1"]["passed"]["switch_mtu"] == 16
    assert "changed=0" in run.stdout


def test_wrong_port_fails_the_run_and_is_named_and_no_secret_is_shown(site: Path) -> None:
    with switch(Ethernet3_1=7).running() as here:
        run = audit(site, here, "-vvv")
    assert run.returncode == 2
    said = run.stdout + run.stderr
    assert "fail: Ethernet3/1: errors: found fcsErrors: 7, totalInErrors: 7, totalOutErrors: 0" in said
    assert "1 fail of 1 switches asked" in said
    assert PASSWORD not in said
    assert PASSWORD not in (site / "build/switch_audit/report.json").read_text()


def test_check_mode_writes_nothing_and_unknown_and_unasked_switches_are_said(site: Path) -> None:
    with switch().running() as here:
        run = audit(site, here, "--check", switches="tor-1,ctsw-1")
        assert "ctsw-1: not asked, as it has no address in fabric.switches" in run.stdout
        assert run.returncode == 0, run.stdout
        assert not (site / "build").exists()
        run = audit(site, here, switches="tor-9")
    assert run.returncode != 0
    assert "tor-9 is no switch of fabric.switches" in run.stdout + run.stderr


def test_sheets_are_written_once(site: Path) -> None:
    run = play(site, "switch_sheets.yml", "--check")
    assert "changed=1" in run.stdout and not (site / "build").exists()
    assert "changed=1" in play(site, "switch_sheets.yml").stdout
    assert len(list((site / "build/handover").iterdir())) == 2 + 4 + 1
    assert "changed=0" in play(site, "switch_sheets.yml").stdout


def test_documented_questions_are_those_that_are_asked() -> None:
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert options["leave_out"]["choices"] == list(QUESTIONS)
