"""May the PCIe registers be written that the class declares? Not under the kernel's lockdown."""

from __future__ import annotations

from ..boot.pcie_settings import PcieError, Settings, look, plan, refusal
from ..host.host import Host
from ..words.expectations import Expectations


def lacks(host: Host, expect: Expectations) -> list[str]:
    """Return what would have to be set and cannot be; nothing where the firmware has set it so already."""
    pcie = expect.pcie
    # As playbooks/provision.yml asks role rdma, which sets them.
    if pcie is None or expect.nic is None or expect.fabric is None:
        return []
    addresses = [rail.address for rail in expect.nic.rails]
    addresses += [part.address for part in expect.gpu.parts] if expect.gpu else []
    acs_off_above = tuple(addresses) if pcie.acs_enabled is False else ()
    if pcie.max_read_request_bytes is None and pcie.relaxed_ordering is None and not acs_off_above:
        return []
    why = refusal(host)
    if not why:
        return []
    settings = Settings(
        rails=expect.nic.rails,
        max_read_request_bytes=pcie.max_read_request_bytes,
        relaxed_ordering=pcie.relaxed_ordering,
        acs_off_above=acs_off_above,
        local_interrupts=False,
        tool_path=expect.tools.path,
        root=expect.tools.root,
    )
    try:
        steps = plan(look(host, settings), settings)
    except PcieError as exc:
        return [f"pcie: whether it is set as declared cannot be told ({exc}), and {why}"]
    return [f"pcie: {'; '.join(step.what for step in steps)}: {why}"] if steps else []
