"""Module host_preflight, run as Ansible runs it, on the machine of the tests under roots of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.run_module import run_module

CPU = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


def expect(root: Path, **over: Any) -> dict[str, Any]:
    """Return a class of the lab whose files are below ``root``, without what tools would be asked for."""
    lab = expectations_of("lab_h100", {}, "test")
    pytorch = {"python": "/opt/site/bin/python3", "version": None}
    return {**lab, "tools": {"path": "/usr/bin:/bin", "root": str(root)}, "pytorch": pytorch, **over}


@pytest.mark.parametrize("check", [False, True])
def test_everything_is_in_one_message(tmp_path: Path, check: bool) -> None:
    fabric = {"kind": "infiniband", "routing": "adaptive", "peer_memory": "dmabuf", "port": None, "nccl_least": None}
    given = expect(tmp_path, fabric={**fabric, "verify_cabling": False, "ipoib": None})
    mirrored = {"rdma_source": "doca", "rdma_packages": ["doca-ofed=3.1.0"]}
    result = run_module("host_preflight", check=check, expect=given, tools=["perftest"], **mirrored)
    assert result["failed"] and len(result["lacking"]) == 2, result
    assert result["lacking"][0].startswith("rdma_repository: nothing")
    assert result["lacking"][1].startswith("cpu.governor: performance")
    assert result["msg"] == "; ".join(result["lacking"])


def test_host_that_has_all_passes_and_keeps_every_file(tmp_path: Path) -> None:
    (tmp_path / CPU).parent.mkdir(parents=True)
    (tmp_path / CPU).write_text("performance\n", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    result = run_module("host_preflight", expect=expect(tmp_path))
    assert (result["changed"], result["lacking"]) == (False, [])
    assert sorted(tmp_path.rglob("*")) == before


def test_arguments_reach_their_questions(tmp_path: Path) -> None:
    (tmp_path / CPU).parent.mkdir(parents=True)
    (tmp_path / CPU).write_text("performance\n", encoding="utf-8")
    for name, text in {"vendor": "0x10de", "class": "0x030200"}.items():
        file = tmp_path / "sys/bus/pci/devices/0000:19:00.0" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")
    fabric = {"kind": "infiniband", "routing": "adaptive", "peer_memory": "dmabuf", "port": None, "nccl_least": None}
    given = expect(tmp_path, fabric={**fabric, "verify_cabling": False, "ipoib": None})
    shipped = {"other": {"gpus": ["0000:19:00.0"], "rails": []}}
    told = run_module("host_preflight", expect=given, shipped=shipped)["lacking"]
    assert told[0].endswith("class other has these places")
    assert told[1].startswith("perftest: ib_write_bw: not found in /usr/bin:/bin") and len(told) == 2
    assert run_module("host_preflight", expect=given, shipped=shipped, tools=["perftest"])["lacking"] == told[:1]
    locked = run_module(
        "host_preflight",
        expect=given,
        shipped=shipped,
        tools=["perftest"],
        pytorch={"requirements": "torch==2.8.0", "index": "https://mirror.example.com/simple"},
    )
    assert locked["lacking"][0] == told[0] and locked["lacking"][1].startswith(
        "gpu_stack_pytorch: requirements: line 1"
    )
    mirrored = {"rdma_source": "doca", "rdma_packages": ["doca-ofed=3.1.0"], "rdma_repository": "https://mirror"}
    assert run_module("host_preflight", expect=given, shipped=shipped, **mirrored)["lacking"] == told[:1]
    wrong = run_module("host_preflight", expect=given, shipped=shipped, rdma_source="doca")["lacking"]
    assert wrong[0] == told[0] and [line.partition(":")[0] for line in wrong[1:]] == [
        "rdma_repository",
        "rdma_packages",
    ]


def test_storage_tiers_are_asked_for_their_clients_and_secrets(tmp_path: Path) -> None:
    (tmp_path / CPU).parent.mkdir(parents=True)
    (tmp_path / CPU).write_text("performance\n", encoding="utf-8")
    tier = {"name": "bee", "kind": "beegfs", "authentication": True}
    lacking = run_module("host_preflight", expect=expect(tmp_path), storage_tiers=[tier])["lacking"]
    assert lacking[0] == "tier bee: mount.beegfs is not there, expected client.packages that bring it"
    assert lacking[1].startswith("checkpoint_storage_secrets: nothing for tier bee")
    given = {"storage_tiers": [tier], "storage_secrets": ["bee"]}
    assert run_module("host_preflight", expect=expect(tmp_path), **given)["lacking"] == lacking[:1]


def test_expectations_that_are_none_are_refused(tmp_path: Path) -> None:
    result = run_module("host_preflight", expect=expect(tmp_path, cpu=None))
    assert result["failed"] and result["msg"].startswith("expect.cpu: ") and result["lacking"] == []
