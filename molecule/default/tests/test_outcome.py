"""What an operator would look at on the hosts after the first two runs."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
COMPUTE = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
ADMITTED = {"gpu-01", "gpu-02"}


def name_of(host: Any) -> str:
    """Return the inventory name of the host under test."""
    return str(host.check_output("hostname"))


def running(host: Any, service: str) -> None:
    """Assert that a service runs; on failure print what it said."""
    unit = host.service(service)
    if not (unit.is_running and unit.is_enabled):
        pytest.fail(host.run("journalctl --no-pager -n 40 -u %s", service).stdout)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Any]:
    """Verdicts of the last run by node."""
    entries = json.loads((PROJECT / "build/molecule/verdicts.json").read_text())
    return {entry["node"]: entry for entry in entries}


@pytest.fixture(scope="module")
def burned_and_accepted() -> dict[str, tuple[int, ...]]:
    """How many records of burn-in and of acceptance the ledger has of each node."""
    statement = "select count(*) from evidence where node = ? and stage = ?"
    with sqlite3.connect(f"file:{PROJECT}/build/lab/ledger.sqlite?mode=ro", uri=True) as ledger:
        return {
            node: tuple(ledger.execute(statement, (node, stage)).fetchone()[0] for stage in ("burn_in", "acceptance"))
            for node in COMPUTE
        }


def test_second_run_retests_the_sick_and_nobody_else(burned_and_accepted: dict[str, tuple[int, ...]]) -> None:
    assert burned_and_accepted == {"gpu-01": (1, 1), "gpu-02": (1, 1), "gpu-03": (2, 0), "gpu-04": (1, 2)}


@pytest.fixture(scope="module")
def identities() -> dict[str, dict[str, str | None]]:
    """What each node's last preflight says of its machine."""
    statement = "select identity from evidence where node = ? and stage = 'preflight' order by seq desc limit 1"
    with sqlite3.connect(f"file:{PROJECT}/build/lab/ledger.sqlite?mode=ro", uri=True) as ledger:
        return {node: json.loads(ledger.execute(statement, (node,)).fetchone()[0]) for node in COMPUTE}


def test_every_preflight_says_which_machine_it_was(identities: dict[str, dict[str, str | None]]) -> None:
    unread = {node: [name for name, value in each.items() if value is None] for node, each in identities.items()}
    assert unread == {node: [] for node in COMPUTE}
    assert [each["slurmd_node"] for each in identities.values()] == [*COMPUTE]
    for name in ("board_uuid", "bmc_mac", "hostname", "machine_id", "ssh_host_keys"):
        assert len({each[name] for each in identities.values()}) == len(COMPUTE), name


def test_keys_and_id_of_a_machine_are_those_that_it_shows(host: Any, identities: dict[str, Any]) -> None:
    if name_of(host) not in COMPUTE:
        pytest.skip("only compute hosts are examined")
    identity = identities[name_of(host)]
    assert host.file("/etc/machine-id").content_string.strip() == identity["machine_id"]
    shown = host.run("ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[1]
    assert f"ssh-ed25519={shown}" in identity["ssh_host_keys"].split(",")


def test_services_run(host: Any) -> None:
    running(host, "munge")
    running(host, "slurmd" if name_of(host) in COMPUTE else "slurmctld")


def test_hosts_know_each_other_without_a_name_server(host: Any) -> None:
    assert host.run("getent hosts gpu-04").stdout.split()[0] == "10.77.0.14"


def test_user_muster_is_the_same_everywhere_and_has_no_password(host: Any) -> None:
    user = host.user("muster")
    assert (user.uid, user.password) == (990, "!")


def test_munge_key_is_nobody_elses_business(host: Any) -> None:
    key = host.file("/etc/munge/munge.key")
    assert (key.user, key.mode) == ("munge", 0o400)


def test_burn_in_left_evidence_and_is_not_running(host: Any) -> None:
    if name_of(host) not in COMPUTE:
        pytest.skip("only compute hosts are burned in")
    state = json.loads(host.file("/var/lib/muster/burn_in/state.json").content_string)
    assert state["status"] == "finished"
    assert host.file(f"/var/lib/muster/evidence/burn_in/{state['id']}/evidence.json").exists
    assert host.run("systemctl is-active muster-burn-in").stdout.strip() == "inactive"


def test_user_partition_holds_exactly_the_admitted_nodes(host: Any) -> None:
    if name_of(host) in COMPUTE:
        pytest.skip("asked of the controller")
    assert set(host.check_output("sinfo -h -N -p batch -o %N").split()) == ADMITTED
    assert set(host.check_output("sinfo -h -N -p acceptance -o %N").split()) == set(COMPUTE)


def test_gate_file_is_roots(host: Any) -> None:
    if name_of(host) in COMPUTE:
        pytest.skip("the gate's file lies on the controller")
    gate = host.file("/etc/slurm/muster_partitions.conf")
    assert (gate.user, gate.mode & 0o022) == ("root", 0)


def test_verdicts_name_part_and_action(verdicts: dict[str, Any]) -> None:
    assert {name for name, entry in verdicts.items() if entry["state"] == "admitted"} == ADMITTED
    lost = next(each for each in verdicts["gpu-03"]["findings"] if each["verdict"] == "fail")
    assert (verdicts["gpu-03"]["state"], verdicts["gpu-03"]["stage"]) == ("rejected", "burn_in")
    assert "SXM6" in lost["subject"]
    assert "0000:85:00.0" in lost["subject"]
    assert lost["action"] == "reboot"
    slow = [each for each in verdicts["gpu-04"]["findings"] if each["verdict"] == "fail"]
    assert (verdicts["gpu-04"]["state"], verdicts["gpu-04"]["stage"]) == ("rejected", "acceptance")
    assert slow[0]["measured"] < slow[0]["expected"]
    for name in ADMITTED:
        assert {each["verdict"] for each in verdicts[name]["findings"]} == {"pass"}
