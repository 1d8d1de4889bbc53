"""The table of systems: which one a host has, what it calls packages and units, and which roles know it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.systems import (
    SYSTEMS,
    UnknownSystem,
    description,
    parse_release,
    read_release,
    refusal,
    system_here,
    system_of,
)

from tests.fake_host import FakeHost

ROOT = Path(__file__).resolve().parents[3]
EXPECTED = (
    "expected one of Debian 12, Debian 13, Ubuntu 22.04, Ubuntu 24.04, Red Hat Enterprise Linux 9, Rocky Linux 9, "
    "AlmaLinux 9"
)
DEBIAN = {"id": "debian", "release": "12", "name": "Debian GNU/Linux"}
ROCKY = {"id": "rocky", "release": "9.4", "name": "Rocky Linux"}


def here(text: str) -> FakeHost:
    return FakeHost({"/etc/os-release": Output(text)})


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "debian"),
        ("NAME='Debian GNU/Linux'\nID=debian\nVERSION_ID=13\n", "debian"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n', "ubuntu"),
        ('ID=ubuntu\nVERSION_ID="24.04"\n', "ubuntu"),
        ('NAME="Rocky Linux"\nID="rocky"\nVERSION_ID="9.4"\n', "rocky"),
        ('NAME="Red Hat Enterprise Linux"\nID="rhel"\nVERSION_ID="9"\n', "rhel"),
        ('ID="almalinux"\nVERSION_ID="9.10"\n', "almalinux"),
    ],
)
def test_system_of_a_host(text: str, identity: str) -> None:
    assert system_here(here(text)).id == identity


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('ID=ubuntu\nVERSION_ID="20.04"\n', "ubuntu 20.04"),
        ('NAME="Rocky Linux"\nID=rocky\nVERSION_ID="8.10"\n', "Rocky Linux 8.10"),
        ("ID=rhel\nVERSION_ID=90\n", "rhel 90"),
        ("ID=debian\nVERSION_ID=1\n", "debian 1"),
        ('NAME="Debian GNU/Linux"\nID=debian\n', "Debian GNU/Linux without a version"),
        ("#ID=debian\nVERSION_ID=12\n", "a system without a name 12"),
        ('ID="debian\nVERSION_ID=12\n', "a system without a name 12"),
        ("", "a system without a name without a version"),
    ],
)
def test_every_other_system_is_named_with_the_known_ones(text: str, found: str) -> None:
    with pytest.raises(UnknownSystem) as raised:
        system_here(here(text))
    assert str(raised.value) == f"system: found {found}, {EXPECTED}"
    said = read_release(here(text))
    assert refusal(said, []) == refusal(said, ["host_base"]) == str(raised.value)
    assert description(said) == {**said, "network": "", "boot_loader": "", "time_sources": "", "administrators": ""}


def test_environments_have_a_python_that_pytorch_knows() -> None:
    rocky, debian = system_of("rocky", "9.4"), system_of("debian", "12")
    assert (rocky.packages_of(["python3-venv"]), rocky.environments_python) == (["python3.12"], "/usr/bin/python3.12")
    assert (debian.packages_of(["python3-venv"]), debian.environments_python) == (["python3-venv"], "/usr/bin/python3")


def test_usr_lib_is_asked_where_etc_has_no_such_file() -> None:
    debian, other = Output("ID=debian\nVERSION_ID=12\n"), Output("ID=arch\nVERSION_ID=1\n")
    assert read_release(FakeHost({"/usr/lib/os-release": debian}))["id"] == "debian"
    assert read_release(FakeHost({"/usr/lib/os-release": debian, "/etc/os-release": other}))["id"] == "arch"


def test_file_that_cannot_be_read_is_no_system() -> None:
    with pytest.raises(Unreadable, match="Permission denied"):
        read_release(FakeHost({"/etc/os-release": Output(rc=None, error="/etc/os-release: Permission denied")}))


def test_shell_syntax_of_os_release() -> None:
    assert parse_release('A=\'x y\'\nB="q\\"r"\n\n# C=1\nnone\nD=\n') == {"A": "x y", "B": 'q"r', "D": ""}


def test_role_refuses_the_systems_that_it_does_not_know() -> None:
    assert (
        refusal(
            ROCKY, ["host_base", "rdma", "gpu_stack", "boot", "roce", "infiniband", "nccl", "burn_in", "slurm/hooks"]
        )
        == ""
    )
    assert refusal(ROCKY, ["host_base", "slurm", "subnet_manager"]) == (
        "role slurm does not know Rocky Linux 9.4, expected one of Debian 12, Debian 13, Ubuntu 22.04, Ubuntu 24.04; "
        "for a Slurm of the site declare scheduler.managed: false; role subnet_manager does not know Rocky Linux 9.4, "
        "expected one of Debian 12, Debian 13, Ubuntu 22.04, Ubuntu 24.04"
    )
    assert refusal(DEBIAN, [path.name for path in (ROOT / "roles").iterdir()]) == ""


def test_roles_of_the_table_are_roles() -> None:
    known = {name for system in SYSTEMS for name in system.roles or ()}
    places = [name.partition("/") for name in known]
    assert all((ROOT / f"roles/{role}/tasks/{entry or 'main'}.yml").exists() for role, _, entry in places)


def test_what_roles_have_to_know_of_a_system() -> None:
    assert description(ROCKY) == {
        **ROCKY,
        "network": "networkmanager",
        "boot_loader": "grubby",
        "time_sources": "",
        "administrators": "wheel",
    }
    sources = "/etc/chrony/sources.d/muster.sources"
    assert description(DEBIAN) == {
        **DEBIAN,
        "network": "networkd",
        "boot_loader": "grub",
        "time_sources": sources,
        "administrators": "sudo",
    }


def test_packages_by_the_names_of_the_system() -> None:
    names = ["chrony", "curl", "procps", "ibverbs-utils=50.0-2", "iproute2", "chrony"]
    assert system_of("debian", "12").packages_of(names) == names[:-1]
    assert system_of("rhel", "9.5").packages_of(names) == [
        "chrony",
        "/usr/bin/curl",
        "procps-ng",
        "libibverbs-utils=50.0-2",
        "iproute",
    ]


@pytest.mark.parametrize(
    ("unit", "own"),
    [
        ("chrony", "chronyd"),
        ("chrony.service", "chronyd.service"),
        ("ssh.socket", "ssh.socket"),
        ("slurmd.service", "slurmd.service"),
        ("chronyd", "chronyd"),
    ],
)
def test_units_by_the_names_of_the_system(unit: str, own: str) -> None:
    assert system_of("rocky", "9.4").unit_of(unit) == own
    assert system_of("ubuntu", "24.04").unit_of(unit) == unit
