"""NCCL's log: what it says is read, what it does not say is not made up, what is garbled is told."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_log import (
    LogError,
    NcclLog,
    own_log,
    parse_nccl_log,
    read_log,
)

RAILS = {"rail0": "mlx5_1", "rail1": None}
HEAD = "gpu-01:4711:4720 [3] NCCL INFO "
GOOD = (
    f"{HEAD}NCCL version 2.26.2+cuda12.8\n"
    f"{HEAD}NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB bond0:10.0.0.1<0>\n"
    f"{HEAD}Using network IB\n"
    f"{HEAD}NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'\n"
    f"{HEAD}NVLS multicast support is available on dev 3 (NVLS_NCHANNELS 16)\n"
    f"{HEAD}ncclCommInitRank comm 0x55 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 5e000 commId 0x1 - Init COMPLETE\n"
    f"{HEAD}Channel 00/0 : 3[3] -> 11[3] [send] via NET/IB/0/GDRDMA/Shared\n"
    f"{HEAD}Channel 01/0 : 11[3] -> 3[3] [receive] via NET/IB/1(2)/GDRDMA(PCI)\n"
    f"{HEAD}Channel 02/0 : 3[3] -> 4[4] via P2P/CUMEM\n"
)


def test_log_of_a_sound_rank() -> None:
    log = parse_nccl_log(GOOD)
    assert log == NcclLog({"mlx5_0": "RoCE", "mlx5_1": "RoCE"}, ("IB",), {"IB": 2}, {}, (), True, True, "2.26.2")
    assert NcclLog.from_dict(json.loads(json.dumps(log.to_dict()))) == log


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("Using network Socket", "networks", ("IB", "Socket")),
        ("Channel 00/0 : 3[3] -> 11[3] [send] via NET/Socket/0", "staged", {"Socket": 1}),
        ("Channel 00/0 : 3[3] -> 11[3] [send] via NET/IB/0", "staged", {"IB": 1}),
        (
            "Channel 00 : 3[5e000] -> 11[5e000] [send] via NET/AWS Libfabric/0/GDRDMA",
            "direct",
            {"IB": 2, "AWS Libfabric": 1},
        ),
        ("NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'", "without_gpu_direct", ("mlx5_1",)),
        ("NVLS multicast support is not available on dev 3", "nvls", False),
        (
            "NET/IB : Using [0]mlx5_bond_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "devices",
            {"mlx5_0": "RoCE", "mlx5_1": "RoCE", "mlx5_bond_0": "RoCE"},
        ),
        (
            "NET/IB : Using [0]={[0] mlx5_8:1/RoCE, [1] mlx5_9:2/RoCE} [RO]; OOB eth0:10.0.0.1<0>",
            "devices",
            {"mlx5_0": "RoCE", "mlx5_1": "RoCE", "mlx5_8": "RoCE", "mlx5_9": "RoCE"},
        ),
    ],
)
def test_line_is_read(line: str, key: str, value: object) -> None:
    assert getattr(parse_nccl_log(f"{GOOD}{HEAD}{line}\n"), key) == value


def test_log_cut_anywhere_gains_nothing() -> None:
    whole = parse_nccl_log(GOOD)
    for end in range(len(GOOD)):
        cut = parse_nccl_log(GOOD[:end])
        assert set(cut.devices.items()) <= set(whole.devices.items())
        assert set(cut.networks) <= set(whole.networks)
        assert sum(cut.direct.values()) <= 2
        assert cut.nvls in (None, True)
        assert cut.complete <= whole.complete


@pytest.mark.parametrize(
    "devices", ["", "[0]mlx5_0:1/RoCE [1]mlx5\ufffd:1/RoCE [RO]", "[0]mlx5_0:1/Ro [RO]", "[0] [1]"]
)
def test_garbled_devices_are_an_error_and_never_fewer_devices(devices: str) -> None:
    with pytest.raises(LogError, match="expected devices such as"):
        parse_nccl_log(f"{HEAD}NET/IB : Using {devices}; OOB eth0:10.0.0.1<0>\n")


@pytest.mark.parametrize(
    "change",
    [
        {"devices": ["mlx5_0"]},
        {"direct": {"IB": "8"}},
        {"direct": {"IB": True}},
        {"networks": "IB"},
        {"nvls": 1},
        {"complete": None},
        {"version": 2},
        {"rails": ["mlx5_0"]},
        {"rails": {"rail0": 0}},
        {"more": 1},
    ],
)
def test_facts_of_other_types_are_an_error(change: dict[str, object]) -> None:
    with pytest.raises(LogError):
        NcclLog.from_dict({**parse_nccl_log(GOOD).to_dict(), **change})


@pytest.mark.parametrize("data", [None, "log", {}, {"error": "NCCL wrote nothing"}])
def test_log_nobody_read_is_an_error(data: object) -> None:
    with pytest.raises(LogError):
        NcclLog.from_dict(data)


def test_what_nccl_writes_to_its_file_is_read_and_nothing_is_left() -> None:
    environment: dict[str, str] = {}
    with own_log(environment) as file:
        assert read_log(file, RAILS) == {"error": "NCCL wrote nothing"}
        # As NCCL does it: by name, cut to nothing first.
        Path(environment["NCCL_DEBUG_FILE"]).write_text(GOOD)
        assert NcclLog.from_dict(read_log(file, RAILS)) == replace(parse_nccl_log(GOOD), rails=RAILS)
        assert read_log(file, RAILS) == read_log(file, RAILS)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file)
    assert (environment["NCCL_DEBUG"], environment["NCCL_DEBUG_SUBSYS"]) == ("INFO", "INIT,NET")
