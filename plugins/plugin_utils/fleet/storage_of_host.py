"""What follows from the declared storage for hosts: the mounts of a compute node, and what a server exports."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.formats.mounts import BEEGFS, LOCAL, LUSTRE, NFS, WEKA
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Checkpoint, Expectations, Mount
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_storage import Storage, Tier
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.shipped_defaults import shipped_defaults


def with_storage(expect: Expectations, storage: Storage, addresses: Mapping[str, str], file: str) -> Expectations:
    """Return the expectations of a class with its mounts and checkpoint, null where the fleet declares none.

    ``addresses`` are those of the declared hosts by name. Raises FleetError where the class cannot have a tier.
    """
    if not storage.tiers:
        return replace(expect, mounts=None, checkpoint=None)
    shipped = shipped_defaults("storage")
    mounts: list[Mount] = []
    for number, tier in enumerate(storage.tiers):
        where = f"storage.tiers[{number}]"
        for numa_node in _numa_nodes(tier, expect, file, where):
            mounts.append(
                Mount(
                    tier=tier.name,
                    kind=tier.kind,
                    path=tier.path if numa_node is None else f"{tier.path}/numa{numa_node}",
                    filesystem=_filesystem(tier, shipped),
                    source=_source(tier, addresses),
                    options=tuple(options_of(tier, shipped)),
                    numa_node=numa_node,
                    stripe_count=tier.stripe_count,
                    write_ms=tier.write_ms,
                    free_percent=tier.free_percent,
                )
            )
    return replace(expect, mounts=tuple(mounts), checkpoint=_checkpoint(storage))


def _checkpoint(storage: Storage) -> Checkpoint | None:
    if storage.checkpoint is None:
        return None
    model = storage.checkpoint.model
    return Checkpoint(
        tier=storage.checkpoint.tier,
        path=next(tier.path for tier in storage.tiers if tier.name == storage.checkpoint.tier),
        shard_bytes=math.ceil(model.parameters * model.bytes_per_parameter / model.ranks),
        ranks=model.ranks,
        target_seconds=storage.checkpoint.target_seconds,
    )


def _numa_nodes(tier: Tier, expect: Expectations, file: str, where: str) -> Iterable[int | None]:
    name = expect.class_
    if tier.kind == LOCAL and expect.nvme is None:
        found = f"kind {tier.kind} on class {name} without NVMe drives"
        raise FleetError(file, f"{where}.kind", found, f"drives in hardware_classes.{name}.nvme")
    if not tier.per_numa_node:
        return (None,)
    if expect.numa is None:
        raise FleetError(file, f"{where}.per_numa_node", "true", f"the number of them in hardware_classes.{name}.numa")
    return range(expect.numa.nodes)


def _values(tier: Tier, shipped: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mount options by name: the defaults of the kind, then what follows from keys, then the site's own."""
    if tier.kind != NFS:
        values = dict(shipped[tier.kind]["parameters"])
        if tier.kind == BEEGFS:
            # The address is in the file too; here the kernel shows it.
            values |= {"cfgFile": f"/etc/beegfs/muster-{tier.name}.conf", "sysMgmtdHost": tier.management}
    else:
        values = dict(shipped["nfs"]["parameters"][tier.protocol])
        values["proto"] = tier.protocol
        if tier.connections and tier.connections > 1:
            values["nconnect"] = tier.connections
        if tier.remoteports:
            values["remoteports"] = "~".join(tier.remoteports)
    values.update(tier.parameters)
    return {key: value for key, value in values.items() if value is not None}


def options_of(tier: Tier, shipped: Mapping[str, Any]) -> list[str]:
    """Return the mount options of a tier, as mount(8) takes them."""
    values = _values(tier, shipped)
    # WEKA's client takes a device each.
    devices = [f"net={each}" for each in tier.net]
    return devices + [name if value is True else f"{name}={value}" for name, value in values.items()]


def _filesystem(tier: Tier, shipped: Mapping[str, Any]) -> str:
    if tier.kind == NFS:
        return "nfs" if str(_values(tier, shipped).get("vers", "4")).startswith("3") else "nfs4"
    return {LOCAL: "xfs", LUSTRE: "lustre", WEKA: "wekafs", BEEGFS: "beegfs"}.get(tier.kind) or str(tier.filesystem)


def _source(tier: Tier, addresses: Mapping[str, str]) -> str | None:
    if tier.kind == NFS and tier.server is not None:
        address = tier.address or addresses.get(tier.server, tier.server)
        return f"{f'[{address}]' if ':' in address else address}:{tier.export}"
    # BeeGFS' own name for what it has no device for (beegfs-client.conf, "Mount Options").
    return "beegfs_nodev" if tier.kind == BEEGFS else tier.source


def exports_of(host: str, storage: Storage, compute: Collection[str]) -> list[dict[str, Any]]:
    """Return what a declared server exports: path, who may mount it, below which drives it lies, over what.

    Without declared clients they are the compute nodes, whose addresses ``compute`` has, those of rails too.
    """
    return [
        {
            "name": tier.name,
            "path": tier.export,
            "clients": list(tier.clients or _networks(compute)),
            "drives": list(tier.drives),
            "protocol": tier.protocol,
        }
        for tier in storage.tiers
        if tier.kind == NFS and tier.server == host
    ]


def _networks(addresses: Collection[str]) -> list[str]:
    """Return addresses as few networks: exports(5) would have a line for each of thousands."""
    found: dict[int, list[Any]] = {4: [], 6: []}
    for address in addresses:
        network = ipaddress.ip_network(address.partition("/")[0])
        found[network.version].append(network)
    return [str(each) for version in (4, 6) for each in ipaddress.collapse_addresses(found[version])]
