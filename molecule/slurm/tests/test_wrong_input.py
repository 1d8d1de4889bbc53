"""What is declared wrongly is one clear error, found before anything is changed."""

from __future__ import annotations

import base64

import pytest
from cluster import CONTROLLERS, DATABASE, LOGIN, NODES, changed_inventory, on, submit, try_to_play, wait_for_job

# Everything that the roles write; what changes by itself is not among it.
TRACES = (
    "find /etc/slurm /etc/munge /etc/systemd/system /etc/ssh /etc/pam.d /usr/libexec/muster -xdev "
    "\\( -type f -o -type l \\) -printf '%p %i %T@ %s\\n' 2>/dev/null | sort"
)


def traces() -> dict[str, str]:
    """Return what lies on every host."""
    return {host: on(host, TRACES) for host in (*CONTROLLERS, DATABASE, LOGIN, *NODES)}


CASES = {
    "partition of an unknown class": (
        "- {name: interactive}",
        "- {name: interactive, hardware_classes: [lab_h1000]}",
        "lab_h1000",
    ),
    "node in two racks": (
        'racks: {name: "r[1-2]", nodes_each: 2}',
        'racks: {name: "r[1-2]", nodes_each: 2}\n'
        "  - {name: gpu-02, hardware_class: lab_h100, address: 10.77.2.22, racks: {name: r2, nodes_each: 1}}",
        "gpu-02",
    ),
    "no controller": (
        "  - {name: ctl, role: controller, address: 10.77.2.10}\n"
        "  - {name: ctl-2, role: controller, address: 10.77.2.11}\n",
        "",
        "controller",
    ),
    "three controllers": (
        "- {name: login-1, role: login, ",
        "- {name: login-1, role: controller, ",
        "one controller, or two",
    ),
    "two controllers without a state directory": ("  state_directory: /srv/slurm-state\n", "", "state_directory"),
    "a database nobody declared": ("- {name: db, role: database", "- {name: db, role: login", "role database"),
    "a key that the release lacks": (
        "KillWait: 5",
        "KillWait: 5\n    MetricsType: metrics/openmetrics",
        "MetricsType",
    ),
    "a value that the release lacks": ("gres: explicit", "gres: explicit\n  topology: block", "topology"),
    "a key that holds the gate": ("KillWait: 5", "KillWait: 5\n    EnforcePartLimits: ALL", "EnforcePartLimits"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_fleet_file_stops_before_the_first_play(case: str) -> None:
    old, new, said = CASES[case]
    run = try_to_play("provision", inventory=changed_inventory("wrong", (old, new)))
    assert run.rc != 0
    assert said in run.output, run.output[-3000:]
    assert "slurm.fleet.yml" in run.output
    assert "Traceback" not in run.output
    assert "PLAY [" not in run.output, "a play began"


LIVE = {
    "a value that only slurmctld can judge": (
        ("KillWait: 5", "KillWait: 5\n    SchedulerType: sched/nonsense"),
        "sched/nonsense",
    ),
    "a release whose packages nobody has": (("gres: explicit", 'gres: explicit\n  version: "23.11"'), "23.11"),
    "a name that does not resolve": (
        ("- {name: db, role: database, address: 10.77.2.12}", "- {name: db, role: database, address: db.nowhere}"),
        "db.nowhere",
    ),
}


@pytest.mark.parametrize("case", LIVE)
def test_what_a_fleet_file_cannot_tell_is_found_before_it_is_live(case: str) -> None:
    change, said = LIVE[case]
    before = traces()
    run = try_to_play("provision", inventory=changed_inventory("wrong", change))
    assert run.rc != 0
    assert said in run.output, run.output[-4000:]
    assert "Traceback" not in run.output
    after = traces()
    assert {host: after[host] for host in after if after[host] != before[host]} == {}
    wait_for_job(submit("true"), "COMPLETED")


@pytest.mark.parametrize("length", [31, 1025])
def test_a_key_that_munge_does_not_take_is_refused(length: int) -> None:
    before = traces()
    key = base64.b64encode((bytes(range(256)) * 5)[:length])
    run = try_to_play("provision", "-e", f"slurm_munge_key={key.decode()}")
    assert run.rc != 0
    assert "slurm_munge_key" in run.output, run.output[-3000:]
    assert key.decode()[:40] not in run.output, "the key was printed"
    assert traces() == before
