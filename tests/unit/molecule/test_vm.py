"""What vm.py makes of a scenario's machines, and whether those can have what the roles install."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import lab
import pytest
import vm
import yaml

ROOT = Path(__file__).resolve().parents[3]
FABRIC_VM = ROOT / "molecule" / "fabric_vm" / "vars" / "machines.yml"
STORAGE_VM = ROOT / "molecule" / "storage_vm" / "vars" / "machines.yml"


def defaults_of(role: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text(encoding="utf-8"))
    return data


def test_machines_can_install_all_that_the_roles_ask_for() -> None:
    rdma = defaults_of("rdma")
    asked = {*defaults_of("host_base")["host_base_packages"], *rdma["rdma_packages"], *rdma["rdma_roce_packages"]}
    assert asked - set(vm.read_lab(FABRIC_VM).packages) == set()


@pytest.mark.parametrize("networks", [(["a"], []), (["a"], ["a", "b"]), (["a", "a", "a"], [])])
def test_network_that_does_not_join_two_machines_is_named(tmp_path: Path, networks: tuple[list[str], ...]) -> None:
    machines = [
        {"name": f"vm-{number}", "address": f"10.0.2.{number}", "memory_mib": 512, "nics": nics}
        for number, nics in enumerate(networks)
    ]
    file = tmp_path / "machines.yml"
    file.write_text(yaml.safe_dump({"packages": [], "machines": machines}), encoding="utf-8")
    with pytest.raises(lab.LabError, match=r"network [ab] joins [13] machines, expected 2"):
        vm.read_lab(file)


def test_suite_that_the_lab_does_not_know_is_named(tmp_path: Path) -> None:
    file = tmp_path / "machines.yml"
    file.write_text(yaml.safe_dump({"suite": "jammy", "packages": [], "machines": []}), encoding="utf-8")
    with pytest.raises(lab.LabError, match="suite jammy, expected one of bookworm, trixie, noble"):
        vm.read_lab(file)


def test_machine_that_is_not_there_is_named() -> None:
    with pytest.raises(lab.LabError, match="no machine vm-09, found vm-01, vm-02"):
        vm.read_lab(FABRIC_VM).machine("vm-09")


def test_storage_machines_can_install_all_that_the_role_asks_for() -> None:
    variables = (ROOT / "roles" / "checkpoint_storage" / "vars" / "main.yml").read_text(encoding="utf-8")
    asked = {"mdadm", "xfsprogs", "nfs-common", "netbase", "nfs-kernel-server"}
    assert all(f"'{name}'" in variables for name in asked)
    assert asked <= set(vm.read_lab(STORAGE_VM).packages)


def test_drives_are_made_once_at_the_same_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(vm, "run", lambda command, **_: (made.append(command), Path(command[-2]).touch()))
    machine = vm.Machine("vm-01", "10.0.2.11", 512, (), ("C1", "C2"))
    place = vm.Lab(tmp_path, (), (machine,))
    arguments = vm.drive_arguments(place, machine)
    assert [each.partition("addr=")[2] for each in arguments if each.startswith("nvme,")] == ["0x10", "0x11"]
    assert vm.drive_arguments(place, machine) == arguments and len(made) == 2


def test_rails_lie_where_the_fleet_file_declares_them() -> None:
    lab = vm.read_lab(FABRIC_VM)
    machine = lab.machine("vm-02")
    with socket.socket() as one, socket.socket() as other:
        arguments = vm.nic_arguments(lab, machine, [one, other])
    slots = [each.partition("addr=")[2] for each in arguments if each.startswith("virtio-net-pci")]
    file = ROOT / "molecule" / "fabric_vm" / "inventory" / "vm.fleet.yml"
    rails = yaml.safe_load(file.read_text(encoding="utf-8"))["hardware_classes"]["vm_roce"]["nic"]["rails"]
    assert [rail["address"] for rail in rails] == [f"0000:00:{int(slot, 16):02x}.0" for slot in slots]
