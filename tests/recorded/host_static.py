"""What lscpu, numactl, chronyc and lspci printed on real machines, and what the host's static checks must say of it."""

from __future__ import annotations

import gzip
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .row import Row

XE9680 = ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")


def gpus(buses: tuple[str, ...]) -> dict[str, Any]:
    """Return the part of a class that says where the GPUs lie."""
    parts = [{"slot": f"SXM{slot}", "address": f"0000:{bus}:00.0"} for slot, bus in enumerate(buses, 1)]
    return {"gpu": {"count": len(parts), "parts": parts}}


def unpacked(data: bytes) -> Output:
    """Return the output that was saved compressed."""
    return Output(gzip.decompress(data).decode("utf-8"))


GUEST = {"sockets": 2, "cores": 2, "threads_per_core": 1, "model": "Intel Core Processor (Haswell, no TSX, IBRS)"}
_A100_AT = [f"000{domain}:00:00.0" for domain in "1234bcde"]
HGX_A100 = {
    "gpu": {"count": 8, "parts": [{"slot": f"GPU{n}", "address": at} for n, at in enumerate(_A100_AT)]},
}
WHOLE = "lspci/lspci-vvv-dell-xe9680-hgx-h100.txt.gz"
ROWS = [
    Row("chrony/chronyc-tracking-stratum3.txt", "chrony", ("clock",), "pass", why="synchronised, 32 us off"),
    Row("numa/lscpu-3.txt", "lscpu", ("cpu",), "pass", {"cpu": GUEST}, "the guest as it is"),
    Row("numa/lscpu-3.txt", "lscpu", ("cpu",), "fail", why="two cores are no H100 host"),
    Row("numa/lscpu-3.txt", "lscpu", ("cpu",), "fail", {"cpu": {**GUEST, "threads_per_core": 2}}, "SMT is off"),
    Row(
        "numa/numactl-H-spr-snc4-8nodes.txt", "numa", ("numa",), "pass", {"numa": {"nodes": 8}}, "eight nodes, balanced"
    ),
    Row("numa/numactl-H-spr-snc4-8nodes.txt", "numa", ("numa",), "fail", why="sub-NUMA clustering on, declared off"),
    Row(
        WHOLE,
        "lspci",
        ("pcie_links", "acs"),
        "pass",
        gpus(XE9680),
        "GPUs and ConnectX-7 at 32GT/s x16; slow switch ports and the management NIC are so by design",
        unpacked,
    ),
    Row(
        WHOLE,
        "lspci",
        ("pcie_links",),
        "fail",
        gpus((*XE9680[:7], "dd")),
        "another device at a declared GPU's address",
        unpacked,
    ),
    Row(
        WHOLE,
        "lspci",
        ("acs",),
        "fail",
        {**gpus(XE9680), "pcie": {"acs_enabled": True}},
        "declared on, is off",
        unpacked,
    ),
    Row(
        "lspci/lspci-vvv-h100-gpus-only.txt",
        "lspci",
        ("pcie_links",),
        "pass",
        {**gpus(XE9680), "nic": None},
        "eight GPUs at 32GT/s x16",
    ),
    Row(
        "lspci/lspci-vvv-h100-gpus-only.txt",
        "lspci",
        ("acs",),
        "incomplete",
        {**gpus(XE9680), "nic": None},
        "the bridges above are not in the file",
    ),
    Row(
        "lspci/lspci-vvv-cx7-only.txt",
        "lspci",
        ("pcie_links",),
        "pass",
        {"gpu": None},
        "eight ConnectX-7 at what they can do",
    ),
    Row("lspci/lspci-vvv-cx7-only.txt", "lspci", ("pcie_links",), "fail", gpus(XE9680), "no GPU in the file"),
    Row(
        "lspci/lspci-nn-a100-hgx.txt",
        "lspci",
        ("pcie_links",),
        "incomplete",
        {**HGX_A100, "nic": None},
        "all eight GPUs are there and answer; without -vv no link is told",
    ),
]
NOT_COVERED = {
    "chrony/chronyc-sources.txt": "the clock is judged by chronyc tracking, which names the source that is followed",
    "nccl-topo/": "topologies handed to NCCL: what they say of links is read from the devices themselves",
    "numa/lstopo-2x-epyc-9654.xml": "NUMA nodes are read from sysfs or numactl, not from lstopo",
    "numa/lstopo-2x-sapphire-rapids-max9460.xml": "NUMA nodes are read from sysfs or numactl, not from lstopo",
    "numa/lstopo-nvidia-dgx-gb10.xml": "NUMA nodes are read from sysfs or numactl, not from lstopo",
    "numa/lstopo-nvidia-dgx2.xml": "NUMA nodes are read from sysfs or numactl, not from lstopo",
}
