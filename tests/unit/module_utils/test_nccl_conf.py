"""NCCL's file on a host: rails become what this boot calls them, and no other NIC ever takes a rail's place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.cli import main as muster
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.rail_names import Names, named
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_conf import (
    HEAD,
    Settings,
    apply,
    by_rail,
    check,
    conf_of,
)

from tests.run_module import run_module

ADDRESSES = ("0000:1a:00.0", "0000:3c:00.0", "0000:4d:00.0")
RAILS = [{"rail": rail, "address": address} for rail, address in enumerate(ADDRESSES)]
# A card of storage, which is no rail.
OTHER = "0000:19:00.0"
VARIABLES = [
    {"name": "NCCL_SOCKET_IFNAME", "value": "=rail1", "reason": "ranks meet here"},
    {"name": "NCCL_IB_HCA", "value": "=rail0,rail1,rail2", "reason": "exactly the rails"},
    {"name": "NCCL_IB_TC", "value": "104", "reason": "ToS of data"},
]
DATA = {"variables": VARIABLES, "rails": RAILS}
SETTINGS = Settings.from_dict(DATA)

PLAIN = dict(zip(ADDRESSES, (("mlx5_0", "ens1"), ("mlx5_1", "ens2"), ("mlx5_2", "ens3")), strict=True))
PERSISTENT = dict(
    zip(
        ADDRESSES,
        (("rocep26s0", "enp26s0np0"), ("rocep60s0", "enp60s0np0"), ("rocep77s0", "enp77s0np0")),
        strict=True,
    )
)
SHIFTED = {
    OTHER: ("mlx5_0", "ens1"),
    **dict(zip(ADDRESSES, (("mlx5_1", "ens2"), ("mlx5_2", "ens3"), ("mlx5_3", "ens4")), strict=True)),
}
Called = Mapping[str, tuple[str, str]]


def names(called: Called) -> Names:
    return Names({at: [device] for at, (device, _) in called.items()}, {at: [net] for at, (_, net) in called.items()})


def lay(root: Path, called: Called) -> None:
    """Make the host call its NICs so, as after a boot."""
    functions = root / "sys/bus/pci/devices"
    for earlier in functions.glob("*/*/*"):
        earlier.rmdir()
    for address, (device, interface) in called.items():
        (functions / address / "infiniband" / device).mkdir(parents=True)
        (functions / address / "net" / interface).mkdir(parents=True)


def values(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize(
    ("called", "devices", "interface"),
    [
        (PLAIN, "=mlx5_0,mlx5_1,mlx5_2", "=ens2"),
        (PERSISTENT, "=rocep26s0,rocep60s0,rocep77s0", "=enp60s0np0"),
        (SHIFTED, "=mlx5_1,mlx5_2,mlx5_3", "=ens3"),
    ],
)
def test_rails_are_what_the_host_calls_them_in_their_order(called: Called, devices: str, interface: str) -> None:
    text, problems = conf_of(SETTINGS, names(called))
    assert problems == []
    assert values(text) == {"NCCL_SOCKET_IFNAME": interface, "NCCL_IB_HCA": devices, "NCCL_IB_TC": "104"}


def test_each_reason_stands_above_its_value() -> None:
    lines = conf_of(SETTINGS, names(PLAIN))[0].splitlines()
    assert lines[-4:] == ["# exactly the rails", "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2", "# ToS of data", "NCCL_IB_TC=104"]
    # Old versions of NCCL read what has an equals sign in comments too.
    assert [line for line in lines if line.startswith("#") and "=" in line] == []


def test_rail_without_a_device_is_left_out_and_told_and_no_other_takes_its_place() -> None:
    lost = {at: each for at, each in SHIFTED.items() if at != ADDRESSES[2]}
    text, problems = conf_of(SETTINGS, names(lost))
    assert values(text)["NCCL_IB_HCA"] == "=mlx5_1,mlx5_2"
    assert problems == [
        "rail 2 has no RDMA device at 0000:4d:00.0, RDMA devices of this host: mlx5_0 at 0000:19:00.0, "
        "mlx5_1 at 0000:1a:00.0, mlx5_2 at 0000:3c:00.0"
    ]


def test_without_any_rail_the_list_names_nothing_that_there_is() -> None:
    text, problems = conf_of(SETTINGS, names({OTHER: ("mlx5_0", "ens1")}))
    assert values(text) == {"NCCL_SOCKET_IFNAME": "=none", "NCCL_IB_HCA": "=none", "NCCL_IB_TC": "104"}
    assert len(problems) == 4


@pytest.mark.parametrize("value", ["=bond0", "eth", "=eth0,eth1"])
def test_other_interfaces_stay_as_declared(value: str) -> None:
    settings = Settings.from_dict({**DATA, "variables": [{**VARIABLES[0], "value": value}]})
    assert conf_of(settings, names(PLAIN)) == (f"{HEAD}# ranks meet here\nNCCL_SOCKET_IFNAME={value}\n", [])


def test_file_is_the_same_by_rail_whatever_a_boot_calls_them() -> None:
    found = {
        by_rail(conf_of(SETTINGS, names(called))[0], named(SETTINGS.rails, names(called)))
        for called in (PLAIN, PERSISTENT, SHIFTED)
    }
    (text,) = found
    assert values(text) == {each["name"]: each["value"] for each in VARIABLES}
    other = text.replace("rail2", "mlx5_9")
    assert by_rail(other, named(SETTINGS.rails, names(PLAIN))) == other


def test_names_of_the_next_boot_are_written_and_then_nothing(tmp_path: Path) -> None:
    host, conf = LocalHost(root=str(tmp_path)), tmp_path / "etc/nccl.conf"
    lay(tmp_path, PLAIN)
    assert apply(host, SETTINGS, 0, str(conf)).diff
    lay(tmp_path, PERSISTENT)
    before = conf.read_text()
    assert check(host, SETTINGS, str(conf)).diff
    assert conf.read_text() == before
    assert apply(host, SETTINGS, 0, str(conf)).diff
    assert values(conf.read_text())["NCCL_IB_HCA"] == "=rocep26s0,rocep60s0,rocep77s0"
    written = conf.stat()
    assert not apply(host, SETTINGS, 0, str(conf)).diff
    assert not check(host, SETTINGS, str(conf)).diff
    assert (conf.stat().st_ino, conf.stat().st_mode & 0o777) == (written.st_ino, 0o644)


def test_stale_names_do_not_stay_while_a_rail_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, conf = LocalHost(root=str(tmp_path)), tmp_path / "nccl.conf"
    conf.write_text("NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2\n")
    lay(tmp_path, {at: each for at, each in SHIFTED.items() if at != ADDRESSES[2]})
    meanwhile: list[str] = []

    def pause(_seconds: float) -> None:
        meanwhile.append(values(conf.read_text())["NCCL_IB_HCA"])
        lay(tmp_path, SHIFTED)

    monkeypatch.setattr("time.sleep", pause)
    outcome = apply(host, SETTINGS, 60, str(conf))
    assert (meanwhile, list(outcome.problems)) == (["=mlx5_1,mlx5_2"], [])
    assert values(conf.read_text())["NCCL_IB_HCA"] == "=mlx5_1,mlx5_2,mlx5_3"


@pytest.mark.parametrize(("value", "unknown"), [("=rail0,rail3", "rail3"), ("=mlx5_0", "mlx5_0"), ("mlx5", "mlx5")])
def test_device_that_is_no_rail_of_the_host_is_an_error_and_never_written(
    tmp_path: Path, value: str, unknown: str
) -> None:
    conf = tmp_path / "nccl.conf"
    variables = [{**VARIABLES[1], "value": value}]
    result = run_module("nccl_conf", root=str(tmp_path), path=str(conf), variables=variables, rails=RAILS)
    assert result["msg"] == f"rails: found no {unknown}, expected every rail that NCCL_IB_HCA names"
    assert not conf.exists()


def module(root: Path, check: bool = False) -> dict[str, Any]:
    given: dict[str, Any] = {"root": str(root), "path": str(root / "nccl.conf"), "wait_seconds": 0}
    return run_module("nccl_conf", check=check, **DATA, **given)


def test_module_writes_once_and_check_mode_leaves_no_trace(tmp_path: Path) -> None:
    lay(tmp_path, PERSISTENT)
    assert module(tmp_path, check=True)["changed"] and not (tmp_path / "nccl.conf").exists()
    assert module(tmp_path)["changed"]
    assert "NCCL_IB_HCA==rocep26s0,rocep60s0,rocep77s0\n" in (tmp_path / "nccl.conf").read_text()
    for checked in (True, False):
        again = module(tmp_path, checked)
        assert not again["changed"] and again["lacking"] == []


def test_module_fails_for_a_rail_without_a_device_and_still_takes_stale_names_out(tmp_path: Path) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2\n")
    lay(tmp_path, {at: each for at, each in SHIFTED.items() if at != ADDRESSES[0]})
    foreseen = module(tmp_path, check=True)
    assert foreseen["changed"] and foreseen["lacking"] and not foreseen.get("failed")
    result = module(tmp_path)
    assert result["failed"] and result["changed"]
    assert result["msg"].startswith("rail 0 has no RDMA device at 0000:1a:00.0")
    assert values(conf.read_text())["NCCL_IB_HCA"] == "=mlx5_2,mlx5_3"


def test_unit_writes_and_check_compares_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, conf = tmp_path / "nccl.json", tmp_path / "nccl.conf"
    settings.write_text(json.dumps(DATA))
    lay(tmp_path, PLAIN)
    given = ["--settings", str(settings), "--conf", str(conf), "--root", str(tmp_path)]
    assert muster(["nccl", "check", *given]) == 1
    assert not conf.exists()
    assert muster(["nccl", "apply", *given]) == 0
    assert capsys.readouterr().out == f"{conf} is not as it has to be\n{conf} written\n"
    assert muster(["nccl", "check", *given]) == 0
    lay(tmp_path, {at: each for at, each in PLAIN.items() if at != ADDRESSES[1]})
    assert muster(["nccl", "apply", *given]) == 1
    assert "rail 1 has no RDMA device at 0000:3c:00.0" in capsys.readouterr().err
    # What is there is as it has to be, and is not enough.
    assert muster(["nccl", "check", *given]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["{", "{}", '{"variables": [], "rails": [{"rail": 0, "address": "mlx5_0"}]}'])
def test_unit_names_settings_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "nccl.json"
    path.write_text(text)
    assert muster(["nccl", "apply", "--settings", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
