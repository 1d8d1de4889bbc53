"""A site that sets up this very Slurm itself: nothing is lacking, nothing is changed, and what it breaks is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import (
    CONTROLLERS,
    LEADING,
    LOGIN,
    NODES,
    answering,
    changed_inventory,
    on,
    open_nodes,
    try_to_play,
    wait_for,
)

CONF = "/etc/slurm/slurm.conf"
# Slurm's files and since when its daemons run.
TRACES = (
    "find /etc/slurm /etc/munge /etc/ssh /etc/pam.d /etc/systemd/system -xdev -type f -printf '%p %i %T@ %s\\n' | sort"
    "; systemctl show --property=ActiveEnterTimestamp slurmctld slurmd munge ssh"
)
# Each change of slurm.conf, and what is said of it.
BROKEN = (
    ("s/^EnforcePartLimits=.*/EnforcePartLimits=ALL/", "EnforcePartLimits: is ALL, expected NO"),
    ("s/^ReturnToService=.*/ReturnToService=2/", "ReturnToService: is 2, expected 0 or 1"),
    ("s#^Prolog=.*#Prolog=/bin/true#", "Prolog: is /bin/true, expected /usr/libexec/muster/prolog"),
    ("s/AllowGroups=muster Hidden=YES/AllowGroups=ALL/", "partition acceptance: AllowGroups is ALL, expected muster"),
    ("s/^Include .*/PartitionName=batch Default=YES Nodes=gpu-[01-03]/", "declares partition batch"),
)


@pytest.fixture(scope="module")
def inventory() -> Path:
    """Return the fleet as a site would declare it that sets up Slurm itself, and its database too."""
    text = (Path(__file__).parents[1] / "inventory/slurm.fleet.yml").read_text(encoding="utf-8")
    set_up = text[text.index("  accounting:") : text.index("  node_parameters:")]
    return changed_inventory(
        "site",
        # Of no role of Slurm's, and still in the hosts file.
        ("{name: db, role: database,", "{name: db, role: login,"),
        (set_up, ""),
        ("  ssh_access: pam_slurm\n", "  managed: false\n"),
    )


@pytest.fixture
def broken() -> Iterator[None]:
    """Break slurm.conf on both controllers, and put it back."""
    words = " ".join(f"-e '{change}'" for change, _ in BROKEN)
    for host in CONTROLLERS:
        on(host, f"cp -p {CONF} /root/slurm.conf && sed -i {words} {CONF}")
    on(LEADING, "scontrol reconfigure")
    wait_for("a controller", answering)
    yield
    for host in CONTROLLERS:
        on(host, f"mv /root/slurm.conf {CONF}")
    on(LEADING, "scontrol reconfigure")
    wait_for("a controller", answering)
    assert open_nodes() == set(NODES)


def test_a_slurm_that_lacks_nothing_is_left_as_it_is(inventory: Path) -> None:
    hosts = (*CONTROLLERS, LOGIN, *NODES)
    before = {host: on(host, TRACES) for host in hosts}
    run = try_to_play("provision", inventory=inventory)
    assert run.rc == 0, run.output[-6000:]
    assert {host: on(host, TRACES) for host in hosts} == before
    assert not any(run.changed.values()), run.changed


@pytest.mark.usefixtures("broken")
def test_all_that_is_broken_is_named_at_once(inventory: Path) -> None:
    run = try_to_play("provision", "--limit", "controller,localhost", inventory=inventory)
    assert run.rc != 0
    said = " ".join(run.output.split())
    assert [why for _, why in BROKEN if why not in said] == [], run.output[-6000:]
    assert "does not include /srv/slurm-state/muster_partitions.conf" in said
