"""The outputs of an archive under the names that a class has for parts of the host.

A host is collected before it has a class: its NICs are asked as ``rail0`` and on, its drives as ``nvme 1`` and on, both
in the order of their PCI addresses. A class may have fewer of them, or in another order. Under the name that it was
collected by, what is said of one NIC would be taken for another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..formats.nvme import Drive, assigned
from ..host.blocks import is_listed, joined, listed, split
from ..host.host import Output, Unreadable
from ..nic.declared_nics import rails_of
from ..probes import cables, mlxlink, nic_config, nvme_sysfs, pytorch, smartctl
from ..words.expectations import Expectations
from .archive import Collected
from .collect import collected_probes

# Each runs its tool once for each rail, with the address behind -d.
_OF_RAILS = (cables.NAME, mlxlink.NAME, nic_config.NAME)
_ADDRESS = re.compile(r" -d (\S+)")


def outputs_for(collected: Collected, expect: Expectations) -> dict[str, Output]:
    """Return the outputs by probe, every report on a NIC or drive under the name of the class' part at its address.

    What is no part of the class is left out. Where it is not known what each report is on, the output is unreadable,
    and so are that of a probe which the archive lacks and PyTorch's of another place than the class names.
    """
    names = {probe: {rail.address: rail.name for rail in rails_of(expect)} for probe in _OF_RAILS}
    addresses = {probe: _asked(collected, probe) for probe in _OF_RAILS}
    drives = _drives(collected)
    names[smartctl.NAME] = {drive.address: part for part, drive in assigned(drives, expect.nvme).items()}
    addresses[smartctl.NAME] = sorted(drive.address for drive in drives)
    # What an archive lacks, as an older one does of a later probe, must not leave the checks of it unasked.
    missing = {probe: Output(rc=None, error=f"{probe} was not collected") for probe in collected_probes()}
    return {
        **missing,
        **{
            probe: _renamed(output, addresses[probe], names[probe]) if probe in names else output
            for probe, output in collected.outputs.items()
            # Another Python than the class names was asked.
            if probe != pytorch.NAME or expect.pytorch.python == pytorch.PROVIDED
        },
    }


def _asked(collected: Collected, probe: str) -> list[str]:
    found = [_ADDRESS.search(taken.what) for taken in collected.taken if taken.probe == probe]
    return sorted({match.group(1) for match in found if match})


def _drives(collected: Collected) -> list[Drive]:
    try:
        return list(nvme_sysfs.parse(collected.outputs[nvme_sysfs.NAME]))
    except (KeyError, Unreadable):
        return []


def _renamed(output: Output, addresses: Sequence[str], names: Mapping[str, str]) -> Output:
    """Return an output whose reports are on what lies at ``addresses``, in this order, with those that have a name."""
    reports = list(split(output.stdout).values())
    if not reports:
        return output
    if len(reports) != len(addresses):
        return Output(rc=None, error=f"{len(reports)} reports on {len(addresses)} parts, expected one on each")
    known = dict(zip(addresses, reports))
    together = listed if is_listed(output.stdout) else joined
    return together({name: known[address] for address, name in names.items() if address in known})
