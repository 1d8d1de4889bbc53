#!/usr/bin/python
"""Module boot_parameters: the kernel's command line at the boot loader."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_parameters
short_description: Set kernel parameters in the boot loader
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Writes a drop-in of grub on Debian and Ubuntu, C(/etc/default/grub.d/90-muster.cfg), runs C(update-grub), and
    verifies in its result that every kernel would be started with the parameters.
  - Never reboots. Returns what waits for a reboot, and whether a reboot is due. RDMA modules of the kernel wait for one
    if others are installed than are loaded, as after an installation of DOCA-OFED. The cause is kept in
    C(/var/lib/muster/reboot.json). A cause that a reboot did not remove does not lead to another reboot; with
    O(allow_reboot) it is an error.
  - A host without C(/boot/grub/grub.cfg) is an error. So is a parameter that a later drop-in removes.
  - With O(boot_loader=grubby) nothing is written. A parameter that the running kernel lacks is an error, which has the
    command that declares it.
attributes:
  check_mode: {support: full, description: Reads only.}
  diff_mode: {support: full, description: Shows the drop-in before and after.}
options:
  parameters:
    description: Parameters such as V(iommu=pt), in this order. An empty list writes a drop-in without parameters.
    type: list
    elements: str
    required: true
  boot_loader:
    description: Where the parameters are declared. V(grubby) is for Red Hat Enterprise Linux and its like.
    type: str
    choices: [grub, grubby]
    default: grub
  pending:
    description: Other reasons for a reboot.
    type: list
    elements: str
    default: []
  allow_reboot:
    description: Whether the caller reboots the host where RV(reboot) says so.
    type: bool
    default: false
  tool_path:
    description: PATH of the tools.
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  root:
    description: Prefix of C(/boot), C(/etc/default), C(/proc), C(/sys) and C(/var/lib/muster).
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Declare the kernel's parameters
  muster.cluster.boot_parameters:
    parameters: [iommu=pt, hugepagesz=1048576K, hugepages=16]
"""

RETURN = r"""
steps:
  description: Steps that were done, or would be.
  returned: always
  type: list
  elements: str
  sample: [write /etc/default/grub.d/90-muster.cfg, update-grub]
pending:
  description: Changes that become effective at the next boot.
  returned: always
  type: list
  elements: str
  sample: [the kernel was started without iommu=pt]
uncleared:
  description: Pending changes that their reboot did not make effective.
  returned: always
  type: list
  elements: str
  sample: []
reboot:
  description: Whether a reboot is allowed and something waits that had no reboot yet.
  returned: always
  type: bool
  sample: false
rebooted:
  description: Whether an earlier run rebooted this host or tried to; its drain may still be set.
  returned: always
  type: bool
  sample: false
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.boot import kernel_command_line as boot
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.module_utils.probes import rdma_modules

ARGUMENTS = {
    "parameters": {"type": "list", "elements": "str", "required": True},
    "boot_loader": {"type": "str", "choices": [boot.GRUB, boot.GRUBBY], "default": boot.GRUB},
    "pending": {"type": "list", "elements": "str", "default": []},
    "allow_reboot": {"type": "bool", "default": False},
    "tool_path": {"type": "str", "default": TOOL_PATH},
    "root": {"type": "path", "default": "/"},
}


def still_known(last: boot.Reboot | None, now: str, uncleared: list[str]) -> boot.Reboot | None:
    """Return what is still to be known of the last reboot: what it did not bring, and all while it is to come."""
    if last is None or last.boot_id == now:
        return last
    return boot.Reboot(last.boot_id, tuple(uncleared)) if uncleared else None


def keep(record: Path, before: boot.Reboot | None, after: boot.Reboot | None) -> None:
    """Keep what a reboot is for, or nothing."""
    if after and after != before:
        replace_file(record, after.to_json())
    elif before and not after:
        record.unlink()


def main() -> None:
    """Write the drop-in where it differs, let grub take it up where it has not, and tell whether a reboot is due."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    parameters, root = module.params["parameters"], module.params["root"]
    host, drops_in = LocalHost(module.params["tool_path"], root), module.params["boot_loader"] == boot.GRUB
    drop_in, record = (Path(root, path.lstrip("/")) for path in (boot.DROP_IN, boot.RECORD))
    try:
        text = boot.drop_in_text(parameters)
        absent = boot.loaded_later(host, parameters) if drops_in else []
        lacking = boot.waiting(host, parameters)
        if lacking and not drops_in:
            raise boot.BootError(boot.by_grubby(lacking))
        pending = [f"the kernel was started without {word}" for word in lacking]
        pending += rdma_modules.waiting(host)
        pending += module.params["pending"]
        last = boot.last_reboot(host)
        now = boot.boot_id(host) if last or module.params["allow_reboot"] else ""
        uncleared = boot.uncleared(pending, last, now)
        reboot = module.params["allow_reboot"] and len(uncleared) < len(pending)
        before = drop_in.read_text(encoding="utf-8") if drop_in.exists() else ""
        # Without parameters no drop-in is made; one that is there is emptied.
        write = drops_in and before != text and (bool(parameters) or bool(before))
        steps = [f"write {boot.DROP_IN}"] if write else []
        steps += [boot.UPDATE] if write or absent else []
        if steps and not module.check_mode:
            if write:
                drop_in.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                replace_file(drop_in, text)
            boot.update(host)
            if left := boot.loaded_later(host, parameters):
                raise boot.BootError(
                    f"after {boot.UPDATE} grub.cfg lacks {', '.join(left)}: does a later drop-in undo it?"
                )
        if not module.check_mode:
            keep(record, last, boot.Reboot(now, tuple(pending)) if reboot else still_known(last, now, uncleared))
    except (boot.BootError, Unreadable, OSError) as exc:
        module.fail_json(msg=str(exc), steps=[], pending=[], uncleared=[], reboot=False, rebooted=False)
    result = {"steps": steps, "pending": pending, "uncleared": uncleared, "rebooted": last is not None}
    if module.params["allow_reboot"] and uncleared and not reboot:
        why = (
            "switch the node off and on, or renew its initramfs if that holds an older module: a reboot did not bring "
            + "; ".join(uncleared)
        )
        module.fail_json(msg=why, reboot=False, **result)
    heads = {"before_header": boot.DROP_IN, "after_header": boot.DROP_IN}
    module.exit_json(
        changed=bool(steps) or reboot,
        reboot=reboot,
        **result,
        diff=[{**heads, "before": before, "after": text}] if write else [],
    )


if __name__ == "__main__":
    main()
