#!/usr/bin/python
"""Module pcie_tuning: PCIe settings of a node, now and at every boot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pcie_tuning
short_description: Set PCIe options now and at every boot
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Sets maximum read request and relaxed ordering of the NICs, turns access control (ACS) off on the bridges above the
    given devices, and binds the interrupts of the NICs to their local CPUs. C(irqbalance), which would move them, is
    masked.
  - Every setting is read back; a device that does not keep one is an error.
  - The settings are stored in O(path), from which C(muster pcie apply) sets them at boot. The unit O(unit) is enabled;
    its file must exist.
attributes:
  check_mode: {support: full, description: Reads only.}
  diff_mode: {support: full, description: Shows the file before and after.}
options:
  rails:
    description: The NICs.
    type: list
    elements: dict
    required: true
    suboptions:
      rail: {description: Number of the rail., type: int, required: true}
      address: {description: "PCI address, such as V(0000:1a:00.0).", type: str, required: true}
  max_read_request_bytes:
    description: Maximum read request of the NICs. Unchanged if omitted.
    type: int
  relaxed_ordering:
    description: Whether the NICs use relaxed ordering. Unchanged if omitted.
    type: bool
  acs_off_above:
    description: PCI addresses of devices. ACS is turned off on the bridges between them and the root port.
    type: list
    elements: str
    default: []
  local_interrupts:
    description: Whether the interrupts of the NICs are bound to their local CPUs.
    type: bool
    default: true
  path: {description: File of the settings., type: path, default: /etc/muster/pcie.json}
  unit: {description: Unit that sets them at boot., type: str, default: muster-pcie.service}
  tool_path:
    description: PATH of the tools.
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  root: {description: "Prefix of C(/proc) and C(/sys).", type: path, default: /}
"""

EXAMPLES = r"""
- name: Tune the NICs
  muster.cluster.pcie_tuning:
    rails:
      - {rail: 0, address: "0000:1a:00.0"}
    max_read_request_bytes: 4096
    relaxed_ordering: true
    acs_off_above: ["0000:1a:00.0", "0000:1b:00.0"]
"""

RETURN = r"""
steps:
  description: Settings that were changed, or would be.
  returned: always
  type: list
  elements: str
  sample: ["rail 0 (0000:1a:00.0): reads of 4096 B in place of 512 B"]
"""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.boot.pcie_settings import PcieError, Settings, apply
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH
from ansible_collections.muster.cluster.plugins.module_utils.host.machine import LocalMachine
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import Systemd, SystemdError
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

RAIL = {"rail": {"type": "int", "required": True}, "address": {"type": "str", "required": True}}
ARGUMENTS = {
    "rails": {"type": "list", "elements": "dict", "options": RAIL, "required": True},
    "max_read_request_bytes": {"type": "int"},
    "relaxed_ordering": {"type": "bool"},
    "acs_off_above": {"type": "list", "elements": "str", "default": []},
    "local_interrupts": {"type": "bool", "default": True},
    "path": {"type": "path", "default": "/etc/muster/pcie.json"},
    "unit": {"type": "str", "default": "muster-pcie.service"},
    "tool_path": {"type": "str", "default": TOOL_PATH},
    "root": {"type": "path", "default": "/"},
}


def enable(host: LocalMachine, unit: str, check: bool) -> list[str]:
    """Return what was done so that the unit starts at boot; raises SystemdError."""
    systemd = Systemd(host)
    if systemd.enabled(unit) == "enabled":
        return []
    if not check:
        systemd.do("enable", unit)
    return [f"enable {unit}"]


def main() -> None:
    """Set what differs, keep the settings, enable the unit."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    kept = Path(params["path"])
    try:
        names = ("rails", "max_read_request_bytes", "relaxed_ordering", "acs_off_above", "local_interrupts")
        settings = Settings.from_dict({name: params[name] for name in (*names, "tool_path", "root")})
        host = LocalMachine(params["tool_path"], params["root"])
        steps = [step.what for step in apply(host, settings, module.check_mode)]
        text = json.dumps(settings.to_dict(), indent=1, sort_keys=True) + "\n"
        before = kept.read_text(encoding="utf-8") if kept.exists() else ""
        if before != text:
            steps.append(f"write {kept}")
            if not module.check_mode:
                kept.parent.mkdir(mode=0o755, exist_ok=True)
                replace_file(kept, text)
        steps += enable(host, params["unit"], module.check_mode)
    except (ReadError, PcieError, SystemdError, OSError) as exc:
        module.fail_json(msg=str(exc), steps=[])
    diff = {"before_header": str(kept), "after_header": str(kept), "before": before, "after": text}
    shown = {"before_header": "PCIe", "after_header": "PCIe", "before": "", "after": "".join(f"{s}\n" for s in steps)}
    module.exit_json(changed=bool(steps), steps=steps, diff=[shown, diff] if steps else [])


if __name__ == "__main__":
    main()
