"""What a host has that a good one need not have: nothing judges it, where every host of a draft has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.muster.cluster.plugins.module_utils.formats.bmc import ABSENT, OK
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.probe_values import ProbeValues
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.shortened import shortened

_SHOWN = 8


def notes_on(hosts: Sequence[ProbeValues]) -> tuple[str, ...]:
    """Return what is to be looked at, each with the hosts that have it."""
    by_note: dict[str, list[str]] = {}
    for seen in hosts:
        for note in _notes(seen):
            by_note.setdefault(note, []).append(seen.host)
    return tuple(f"{note} ({shortened(names, _SHOWN)})" for note, names in by_note.items())


def _notes(seen: ProbeValues) -> Iterator[str]:
    modules = seen.value_or_none("dmidecode_memory")
    empty = [module.slot for module in modules.slots if module.mib == 0] if modules else []
    if empty:
        yield f"memory slots without a module: {shortened(empty, _SHOWN)}"
    models = sorted({drive.model or "unknown" for drive in seen.value_or_none("nvme_sysfs") or ()})
    if len(models) > 1:
        yield f"NVMe drives of several models, for which no one is declared: {shortened(models, _SHOWN)}"
    bmc = seen.value_or_none("ipmi_sdr")
    if bmc is None and (bmc := seen.value_or_none("redfish")) is not None:
        yield "no output tells address and netrc of the BMC: declare them in bmc.redfish"
    absent = [supply.name for supply in bmc.supplies if supply.state == ABSENT] if bmc else []
    if absent:
        yield f"power supplies that are absent: {shortened(absent, _SHOWN)}"
    unwell = [supply.name for supply in bmc.supplies if supply.state not in (ABSENT, OK)] if bmc else []
    if unwell:
        yield f"power supplies that are not well: {shortened(unwell, _SHOWN)}"
