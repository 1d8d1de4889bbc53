"""Modules file_set, roce_port and roce_preflight, run as Ansible runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.cli import main as muster

from tests.run_module import run_module

SOFT = {
    "rail": 0,
    "address": "0000:1a:00.0",
    "ip": "172.16.0.1/31",
    "backend": "inbox",
    "mtu_bytes": 9000,
    "dscp_priority": [],
    "lossless_priorities": [],
    "dcqcn": None,
    "cnp_dscp": None,
    "cnp_priority": None,
    "cm_tos": 104,
    "traffic_class": None,
    "rings": None,
    "buffers": None,
}


def lay(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    port = "sys/class/infiniband/rxe0/ports/1"
    sysctl = "proc/sys/net/ipv4/conf/eth1"
    lay(
        tmp_path,
        {
            "sys/class/infiniband/rxe0/parent": "eth1",
            "sys/bus/pci/devices/0000:1a:00.0/virtio1/net/eth1/mtu": "1500",
            "sys/class/net/eth1/mtu": "1500",
            f"{port}/gids/1": "0000:0000:0000:0000:0000:ffff:ac10:0001",
            f"{port}/gid_attrs/types/1": "RoCE v2",
            f"{port}/gid_attrs/ndevs/1": "eth1",
            "sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos": "0",
            **{f"{sysctl}/{name}": "0" for name in ("arp_ignore", "arp_announce", "rp_filter")},
        },
    )
    return tmp_path


def files(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_ports_are_set_then_left_alone(root: Path) -> None:
    ports = [{**SOFT, "gateway": None}]
    first = run_module("roce_port", ports=ports, root=str(root), wait_seconds=0)
    assert first["changed"]
    (port,) = first["ports"]
    assert (port["rail"], port["device"], port["interface"]) == ("rail0", "rxe0", "eth1")
    assert port["after"]["mtu_bytes"] == 9000
    assert "mtu_bytes: 1500\n" in first["diff"][0]["before"]
    assert (root / "sys/class/net/eth1/mtu").read_text() == "9000\n"
    second = run_module("roce_port", ports=ports, root=str(root), wait_seconds=0)
    assert (second["changed"], second["diff"]) == (False, [])


def rename(root: Path, names: dict[str, str]) -> None:
    """Call devices and interfaces otherwise, as udev does at the next boot."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_file() and path.read_text().strip() in names:
            path.write_text(names[path.read_text().strip()] + "\n")
        if path.name in names:
            path.rename(path.with_name(names[path.name]))


def test_reboot_that_renames_the_devices_changes_nothing(root: Path) -> None:
    ports = [{**SOFT, "gateway": None}]
    run_module("roce_port", ports=ports, root=str(root), wait_seconds=0)
    rename(root, {"rxe0": "rocep26s0", "eth1": "enp26s0np0"})
    before = files(root)
    second = run_module("roce_port", ports=ports, root=str(root), wait_seconds=0)
    assert not second["changed"]
    assert (second["ports"][0]["device"], second["ports"][0]["interface"]) == ("rocep26s0", "enp26s0np0")
    assert run_module("roce_preflight", ports=ports, root=str(root), wait_seconds=0)["lacking"] == []
    assert files(root) == before


def test_port_that_is_not_there_fails_and_is_told_in_check_mode(root: Path) -> None:
    ports = [{**SOFT, "address": "0000:3c:00.0"}]
    absent = "rail 0 has no RDMA device at 0000:3c:00.0, RDMA devices of this host: rxe0 at 0000:1a:00.0"
    failed = run_module("roce_port", ports=ports, root=str(root), wait_seconds=0)
    assert failed["failed"] and failed["msg"] == absent
    assert failed["ports"] == [{"rail": "rail0", "device": None, "interface": None, "before": {}, "after": {}}]
    lacking = run_module("roce_preflight", ports=ports, root=str(root), wait_seconds=0)
    assert lacking["failed"] and lacking["lacking"] == [absent]


def test_check_mode_leaves_no_trace(root: Path) -> None:
    before = files(root)
    result = run_module("roce_port", check=True, ports=[SOFT], root=str(root))
    assert result["changed"]
    assert files(root) == before


def test_check_mode_before_the_driver_is_there_warns(tmp_path: Path) -> None:
    result = run_module("roce_port", check=True, ports=[SOFT], root=str(tmp_path))
    assert result["changed"]
    assert "failed" not in result


def test_port_without_its_gid_fails(root: Path) -> None:
    ports = [{**SOFT, "ip": "172.16.0.9/31"}]
    result = run_module("roce_port", ports=ports, root=str(root), wait_seconds=0)
    assert result["failed"]
    assert result["msg"] == "rail 0 (rxe0, eth1): no RoCE v2 GID of 172.16.0.9, found those of 172.16.0.1"


def test_host_that_has_all_passes_the_preflight_and_keeps_every_file(root: Path) -> None:
    before = files(root)
    ports = [{**SOFT, "gateway": None}]
    assert run_module("roce_preflight", ports=ports, root=str(root), wait_seconds=0)["lacking"] == []
    assert run_module("roce_preflight", ports=[], root=str(root), wait_seconds=0)["lacking"] == []
    assert files(root) == before


def test_driver_that_is_installed_but_not_loaded_is_told_first(root: Path, tmp_path: Path) -> None:
    """The host of DOCA-OFED's first installation: its tools are there, the files of its driver are not."""
    tools = tmp_path / "bin"
    lay(root, {"sys/module/mlx5_core/refcnt": "1"})
    file = "/lib/modules/6.1/updates/dkms/mlx5_core.ko"
    text = f"filename: {file}\nversion: 25.07-0.9.7\nname: mlx5_core\nvermagic: 6.1 SMP"
    lay(tools, {"modinfo": f"#!/bin/sh\ncat <<EOF\n{text}\nEOF", "mlnx_qos": "#!/bin/sh", "cma_roce_tos": "#!/bin/sh"})
    for tool in tools.iterdir():
        tool.chmod(0o755)
    port = {**SOFT, "backend": "doca", "dscp_priority": [{"dscp": 26, "priority": 3}], "dcqcn": False}
    before = files(root)

    def told(check: bool = False, **over: Any) -> dict[str, Any]:
        given = {"ports": [port], "root": str(root), "wait_seconds": 0, "tool_path": f"{tools}:/usr/bin:/bin", **over}
        return run_module("roce_preflight", check=check, **given)

    ecn = "/sys/class/net/INTERFACE/ecn/roce_[nr]p/enable/[0-7] is absent (needed for dcqcn of rail0)"
    pending = "reboot pending: mlx5_core: 25.07-0.9.7 is installed, the kernel's own is loaded"
    assert told()["failed"] and told()["lacking"] == [pending, ecn]
    assert told()["msg"] == f"the host lacks what its RoCE ports need: {pending}; {ecn}"
    # It would be there after the run that check mode foresees.
    assert not told(check=True).get("failed") and told(check=True)["lacking"] == [pending, ecn]
    # After the reboot it is the site's to find out why: another kernel, say, for which it was not built.
    (tools / "modinfo").write_text((tools / "modinfo").read_text().replace("version: 25.07-0.9.7\n", ""))
    doca = "backend doca needs the driver and tools of DOCA-OFED (role rdma: rdma_source doca)"
    assert told()["lacking"] == [ecn, doca]
    (tools / "modinfo").write_text("#!/bin/sh\nexit 1\n")
    unread = "modinfo mlx5_core: exit status 1, expected the module of the kernel that runs"
    assert told()["lacking"] == [ecn, unread, doca]
    assert files(root) == {**before, "bin/modinfo": "#!/bin/sh\nexit 1\n"}


def test_port_that_is_none_fails_the_preflight(root: Path) -> None:
    result = run_module("roce_preflight", ports=[{**SOFT, "mtu_bytes": "many"}], root=str(root))
    assert result["failed"] and "ports[0].mtu_bytes" in result["msg"]


def test_unsupported_setting_fails_in_check_mode_too(root: Path) -> None:
    before = files(root)
    for check in (True, False):
        result = run_module("roce_port", check=check, ports=[SOFT, {**SOFT, "traffic_class": 104}], root=str(root))
        assert result["msg"] == "rail 0 (0000:1a:00.0): backend inbox cannot set traffic_class (declared: 104)"
    assert files(root) == before


def test_unit_sets_the_port_from_its_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = root / "rail0.json"
    path.write_text(json.dumps(SOFT))
    assert muster(["roce", "check", "--settings", str(path), "--root", str(root)]) == 1
    assert "rail 0 (rxe0, eth1): mtu_bytes is 1500, expected 9000" in capsys.readouterr().err
    assert muster(["roce", "apply", "--settings", str(path), "--root", str(root)]) == 0
    assert "rail 0 (rxe0, eth1): mtu_bytes: 1500 -> 9000\n" in capsys.readouterr().out
    assert muster(["roce", "check", "--settings", str(path), "--root", str(root)]) == 0


@pytest.mark.parametrize("text", ["{", "{}", '{"rail": "0"}'])
def test_unit_names_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "rail0.json"
    path.write_text(text)
    assert muster(["roce", "apply", "--settings", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_files_are_written_once_and_stale_ones_removed(tmp_path: Path) -> None:
    (tmp_path / "50-muster-old.network").write_text("old")
    (tmp_path / "10-site.network").write_text("site")
    new = tmp_path / "new" / "50-muster-a.network"
    arguments = {
        "files": [{"path": str(new), "content": "a\n", "mode": "0600"}],
        "absent": [f"{tmp_path}/50-muster-*.network", f"{tmp_path}/new/50-muster-*.network"],
    }
    before = files(tmp_path)
    assert run_module("file_set", check=True, **arguments)["changed"]
    assert files(tmp_path) == before
    first = run_module("file_set", **arguments)
    assert (first["written"], first["removed"]) == ([str(new)], [str(tmp_path / "50-muster-old.network")])
    assert files(tmp_path) == {"10-site.network": "site", "new/50-muster-a.network": "a\n"}
    assert new.stat().st_mode & 0o777 == 0o600
    assert not run_module("file_set", **arguments)["changed"]


def test_mode_alone_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    path.chmod(0o644)
    assert run_module("file_set", files=[{"path": str(path), "content": "a", "mode": "0600"}])["changed"]
