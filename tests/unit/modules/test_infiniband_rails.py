"""The module names adapters by their rails, once, and waits for what they have to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_module import run_module

RAILS = [{"rail": 0, "address": "0000:1a:00.0"}, {"rail": 1, "address": "0000:3c:00.0"}]
# A further card comes first; rail 0 has the name that rdma-core gives.
DEVICES = {"0000:05:00.0": "mlx5_0", "0000:1a:00.0": "ibp26s0", "0000:3c:00.0": "mlx5_2"}
FACTORY = "MT4129 ConnectX7   Mellanox Technologies\n"


@pytest.fixture
def host(tmp_path):
    for address, device in DEVICES.items():
        (tmp_path / f"sys/bus/pci/devices/{address}/infiniband/{device}").mkdir(parents=True)
        port = tmp_path / f"sys/class/infiniband/{device}/ports/1"
        port.mkdir(parents=True)
        (port / "link_layer").write_text("InfiniBand\n")
        (port / "state").write_text("4: ACTIVE\n")
        description(tmp_path, device).write_text(FACTORY)
    return tmp_path


def description(host: Path, device: str) -> Path:
    return host / f"sys/class/infiniband/{device}/node_desc"


def run(host: Path, check: bool = False, **arguments):
    return run_module("infiniband_rails", check, name="gpu-1", rails=RAILS, root=str(host), **arguments)


def test_adapters_are_named_by_rail_then_left_alone(host):
    first = run(host)
    assert first["changed"] and first["descriptions"] == {"ibp26s0": "gpu-1 rail0", "mlx5_2": "gpu-1 rail1"}, first
    # The kernel would keep a newline as part of the description.
    assert [description(host, device).read_text() for device in DEVICES.values()] == [
        FACTORY,
        "gpu-1 rail0",
        "gpu-1 rail1",
    ]
    assert not run(host)["changed"]


def test_check_mode_names_nothing(host):
    found = run(host, check=True)
    assert found["changed"] and "gpu-1 rail0" in found["diff"]["after"], found
    assert description(host, "ibp26s0").read_text() == FACTORY


def test_check_mode_foresees_a_driver_that_is_not_there_yet(tmp_path):
    assert run(tmp_path, check=True)["changed"]
    assert "rail 0 has no RDMA device at 0000:1a:00.0" in run(tmp_path)["msg"]


def test_missing_rail_fails_before_any_adapter_is_named(host):
    (host / "sys/bus/pci/devices/0000:3c:00.0/infiniband/mlx5_2").rmdir()
    assert "rail 1 has no RDMA device at 0000:3c:00.0" in run(host)["msg"]
    assert description(host, "ibp26s0").read_text() == FACTORY


def test_rails_that_do_not_become_ready_fail_with_what_is_lacking(host):
    (host / "sys/class/infiniband/mlx5_2/ports/1/state").write_text("2: INIT\n")
    said = run(host, ready={"wait_seconds": 0})["msg"]
    assert said.startswith("after 0 s rail 1 (mlx5_2): port is 2: INIT, expected ACTIVE") and "ibp26s0" not in said
