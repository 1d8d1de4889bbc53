"""Files of a lab host's RoCE ports: what the kernel and the vendor's driver keep of their settings, and their GIDs."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

# Settings that a tool of the lab can be made to take and forget, as its options and names are.
IGNORED = (
    *("--dcbx", "--trust", "--dscp2prio", "--pfc", "--prio2buffer", "--buffer_size"),
    *("cma_roce_tos", "ethtool"),
)
_SYSCTL = ("arp_ignore", "arp_announce", "rp_filter")


def is_setting(path: str) -> bool:
    """Return whether a role sets the file, which is shown as after the driver was loaded."""
    return "/ecn/roce_" in path or path.endswith("/tc/1/traffic_class") or path.startswith("proc/sys/net/ipv4/conf/")


def files(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of the ports' GIDs and settings.

    A port named in ``roce_no_gid`` has no GID of its address.
    """
    found = _settings(state)
    for nic in _present(state):
        port = f"sys/class/infiniband/{nic['device']}/ports/1"
        link_local = ipaddress.IPv6Address("fe80::e42:a1ff:fe00:1").exploded
        own = ipaddress.IPv6Address(f"::ffff:{nic['ip']}").exploded
        gids = [(link_local, "IB/RoCE v1"), (link_local, "RoCE v2"), (own, "IB/RoCE v1"), (own, "RoCE v2")]
        if nic["rail"] in state["roce_no_gid"]:
            gids = gids[:2]
        for index, (gid, kind) in enumerate(gids):
            found[f"{port}/gids/{index}"] = f"{gid}\n"
            found[f"{port}/gid_attrs/types/{index}"] = f"{kind}\n"
            found[f"{port}/gid_attrs/ndevs/{index}"] = f"{nic['interface']}\n"
        found[f"{port}/gids/{len(gids)}"] = f"{ipaddress.IPv6Address(0).exploded}\n"
    return found


def _settings(state: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for nic in _present(state):
        net = f"sys/class/net/{nic['interface']}"
        found.update({f"proc/sys/net/ipv4/conf/{nic['interface']}/{name}": "0\n" for name in _SYSCTL})
        if state["doca_not_loaded"]:
            continue
        found[f"sys/class/infiniband/{nic['device']}/tc/1/traffic_class"] = ""
        for point in ("roce_np", "roce_rp"):
            found.update({f"{net}/ecn/{point}/enable/{priority}": "1\n" for priority in range(8)})
        found[f"{net}/ecn/roce_np/cnp_dscp"] = "48\n"
        found[f"{net}/ecn/roce_np/cnp_802p_prio"] = "6\n"
    return found


def _present(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [nic for nic in state["nics"] if nic["rail"] not in state["nics_missing"]]
