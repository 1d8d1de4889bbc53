"""What identifies a host as the one that was tested: a changed component voids the stages that depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formats.mounts import LOCAL
from ..probes.infiniband import Device
from ..probes.mounts import Used
from ..probes.nccl import Nccl
from ..probes.nvidia_smi import Gpus
from ..words.expectations import Expectations, stated
from ..words.finding import PASS
from .xid import events_in, verdict_of

COMPONENTS = ("gpu_serials", "gpu_vbios", "gpu_driver", "gpu_errors", "kernel", "nccl", "nics", "storage_client")

_GPU = ("gpu_serials", "gpu_vbios", "gpu_driver")
DEPENDS: dict[str, tuple[str, ...]] = {
    "preflight": COMPONENTS,
    # A GPU that reports an error after its burn-in is no longer the one that passed.
    "burn_in": (*_GPU, "gpu_errors", "nics"),
    # GPUDirect goes through the driver.
    "fabric": ("nics", "kernel", "gpu_driver"),
    # Shared storage may be reached over the rails.
    "storage": ("nics", "kernel", "storage_client"),
    "acceptance": (*_GPU, "kernel", "nccl", "nics"),
}

# What a mount's options tell of how its client works.
_CLIENT_OPTIONS = ("vers", "proto", "nconnect", "rsize", "wsize", "hard", "soft")
# The probes whose values fingerprint_of reads.
PROBES = ("nvidia_smi", "kernel_log", "uname", "nccl", "infiniband", "mounts")


def fingerprint_of(values: Mapping[str, Any], expect: Expectations | None = None) -> dict[str, str | None]:
    """Return each component's value, None where it could not be read, ``none`` where the class has no such part.

    ``values`` are parsed probes by name. Serials stand with their PCI addresses: two GPUs that swapped slots are
    another host.
    """
    gpus: Gpus | None = values.get("nvidia_smi")
    nccl: Nccl | None = values.get("nccl")
    components: dict[str, str | None] = dict.fromkeys(COMPONENTS)
    if expect is not None and expect.gpu is None:
        components.update(dict.fromkeys(_GPU, "none"))
    elif gpus is not None and gpus.gpus:
        components["gpu_serials"] = _all([f"{gpu.address}={gpu.serial}" if gpu.serial else None for gpu in gpus.gpus])
        components["gpu_vbios"] = _all([gpu.vbios for gpu in gpus.gpus])
        components["gpu_driver"] = gpus.driver
    log = values.get("kernel_log")
    if log is not None:
        components["gpu_errors"] = _errors(log)
    components["kernel"] = values.get("uname")
    components["nics"] = _nics(values.get("infiniband"), expect)
    components["storage_client"] = _storage_client(values.get("mounts"), expect)
    if nccl is not None:
        components["nccl"] = f"library {nccl.library}, conf {nccl.conf[:16]}"
    return components


def _nics(devices: Mapping[str, Device] | None, expect: Expectations | None) -> str | None:
    """Return identity and firmware of the rails' devices that are there; other NICs are no part of what was tested."""
    if expect is not None and expect.nic is None:
        return "none"
    rails = [rail.device for rail in stated(expect.nic).rails] if expect else list(devices or ())
    found = [devices[name] for name in rails if devices and name in devices]
    known = [f"{nic.name}={nic.guid}:{nic.firmware}" if nic.guid and nic.firmware else None for nic in found]
    return _all(known) or None


def _storage_client(used: Mapping[str, Used] | None, expect: Expectations | None) -> str | None:
    """Return by what client, and how, each shared tier is mounted; one that is not says so, and is no unread one."""
    if used is None or expect is None:
        return None
    found = []
    for wanted in expect.mounts or ():
        if wanted.kind == LOCAL:
            continue
        state = used.get(wanted.path)
        if state is None:
            return None
        how = "not mounted"
        if state.mount is not None:
            shown = [option for option in state.mount.options if option.partition("=")[0] in _CLIENT_OPTIONS]
            how = " ".join([state.mount.filesystem, state.version, *sorted({*shown})]).replace("  ", " ")
        found.append(f"{wanted.tier}={how}")
    return ", ".join(found) or "none"


def _errors(log: Any) -> str:
    """Return the driver's errors since boot that keep a GPU from passing, however often each came."""
    seen = {
        f"{event.address or 'unknown GPU'} {event.name}" for event in events_in(log) if verdict_of(event)[0] != PASS
    }
    return ", ".join(sorted(seen)) or "none"


def _all(values: list[str | None]) -> str | None:
    """Return the distinct values as one text; one unread value leaves the whole unread."""
    known = sorted({value for value in values if value})
    return None if None in values else ",".join(known)
