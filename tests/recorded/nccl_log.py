"""NCCL's own logs: which road the data took. All are excerpts, so none of them proves a whole road."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_log import LogError, parse_nccl_log
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import rail_name
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.transport import transport_findings

from tests.typed import RAILS_FABRIC, typed

from .row import Row


def _transport(rails: Mapping[str, str], data: bytes, expect: Mapping[str, Any]) -> Sequence[Finding]:
    """Judge the text as the log of one rank of two nodes, on which ``rails`` are called so."""
    try:
        read = replace(parse_nccl_log(data.decode("utf-8", errors="replace")), rails=rails).to_dict()
    except LogError as exc:
        read = {"error": str(exc)}
    rank = {"node": "gpu-1", "phase": "end", "transport": read}
    return transport_findings("gpu-1", [{"group": ["gpu-1", "gpu-2"], "ranks": [rank]}], typed(expect))


def _row(file: str, verdict: str, why: str, *devices: str, kind: str = "infiniband", **asked: bool) -> Row:
    # The logs do not say where the devices lie.
    rails = [{"rail": rail, "address": f"0000:{rail:02x}:00.0"} for rail in range(len(devices))]
    expect = {
        "fabric": {**RAILS_FABRIC, "kind": kind, "routing": "adaptive"},
        "nic": {"rails": rails},
        "collective": {"transport": {"gpu_direct": True, "nvls": None, **asked}},
    }
    folder = "" if "/" in file else "nccl-log/"
    names = {rail_name(rail): device for rail, device in enumerate(devices)}
    return Row(f"{folder}{file}", "nccl", ("transport",), verdict, expect, why, judge=partial(_transport, names))


_EIGHT = tuple(f"mlx5_{number}" for number in range(8))
_SHARP = ("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5")
_LCCN = ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_11")
_ENDS = "the right devices, but the excerpt ends before any channel"
_NO_RDMA = "nothing of RDMA devices, and the wrong network"
ROWS = [
    _row("net-ib-8x-mlx5-oob.log", "incomplete", _ENDS, *_EIGHT),
    _row("net-ib-8x-mlx5-oob.log", "fail", "seven rails declared, NCCL took an eighth device", *_EIGHT[:7]),
    _row("net-ib-includes-bond-roce.log", "fail", "the storage bond is among the devices", *_EIGHT),
    _row("ib-sharp-h100-4nic.log", "incomplete", _ENDS, *_SHARP),
    _row("ib-sharp-h100-4nic.log", "fail", "four of eight declared rails were left out", *_EIGHT),
    _row("init-sharp-ib-nvls-h100-2node-excerpt.log", "incomplete", _ENDS, *_LCCN, nvls=True),
    _row("init-sharp-ib-nvls-h100-2node-excerpt.log", "fail", "NVLS is there, declared away", *_LCCN, nvls=False),
    _row("gdr-disabled-roce.log", "fail", "no GPUDirect RDMA on either device", *_EIGHT[:2], kind="roce"),
    _row("gdr-disabled-roce.log", "incomplete", _ENDS, *_EIGHT[:2], kind="roce", gpu_direct=False),
    _row("init-h800-no-ib-socket-fallback-excerpt.log", "fail", _NO_RDMA, *_EIGHT),
    _row("net-fastsocket-gcp.log", "incomplete", "a line of another network's plugin, none of NCCL's own", *_EIGHT),
    _row("nccl-tests/nccl-info-net-ib-plugin.log", "incomplete", "the network is right, no device is named", *_EIGHT),
]
NOT_COVERED: dict[str, str] = {}
