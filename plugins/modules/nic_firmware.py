#!/usr/bin/python
"""Module nic_firmware: firmware settings of a node's NICs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_firmware
short_description: Set the firmware settings of NICs
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Queries every NIC with C(mstconfig), or with C(mlxconfig) if that is not installed, and sets different values for
    the next boot of the device. Every setting is read back; a device that ignores one is an error.
  - An unknown key, a list, an unreadable value, and a read-only setting with another value are errors, before any
    change of that NIC. A key that C(ADVANCED_PCI_SETTINGS) or another declared C(ADVANCED_) key unlocks may appear
    later, and is looked at then.
  - New values become effective with a reset of the device, which needs O(allow_reset), or with a reboot. Pending values
    are returned. Firmware is never flashed.
attributes:
  check_mode: {support: full, description: Queries only.}
  diff_mode: {support: full, description: Shows the values for the next boot before and after.}
options:
  nics:
    description: The NICs.
    type: list
    elements: dict
    required: true
    suboptions:
      rail: {description: Number of the rail., type: int, required: true}
      address: {description: "PCI address, such as V(0000:1a:00.0).", type: str, required: true}
  settings:
    description: Settings of every NIC; an empty list sets nothing.
    type: list
    elements: dict
    required: true
    suboptions:
      key: {description: "Name, such as V(MAX_ACC_OUT_READ).", type: str, required: true}
      wanted:
        description: Its value as number, name, or both, such as V(2), V(ETH) or C(ETH(2\)).
        type: str
        required: true
  firmware: {description: Expected version; empty for no comparison., type: str, default: ""}
  allow_reset:
    description: Whether a NIC with a pending setting is reset. Its links go down.
    type: bool
    default: false
  tool_path:
    description: PATH of the tools.
    type: str
    default: /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""

EXAMPLES = r"""
- name: Let the NICs read ahead
  muster.cluster.nic_firmware:
    nics:
      - {rail: 0, address: "0000:1a:00.0"}
    settings:
      - {key: ADVANCED_PCI_SETTINGS, wanted: "1"}
      - {key: MAX_ACC_OUT_READ, wanted: "128"}
"""

RETURN = r"""
steps:
  description: Settings that were changed, or would be.
  returned: always
  type: list
  elements: str
  sample: ["rail 0 (0000:1a:00.0): MAX_ACC_OUT_READ 128 in place of 0"]
pending:
  description: Values that become effective at the next reset or reboot.
  returned: always
  type: list
  elements: str
  sample: ["rail 0 (0000:1a:00.0): MAX_ACC_OUT_READ is 0, 128 from the next boot on"]
other_firmware:
  description: NICs with another version than O(firmware). They are not changed; check C(nic_firmware) reports them.
  returned: always
  type: list
  elements: str
  sample: ["rail 0 (0000:1a:00.0) runs 28.39.1002"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.nic.firmware_apply import (
    Device,
    NicError,
    Report,
    reconcile,
)
from ansible_collections.muster.cluster.plugins.module_utils.nic.nic_tools import CONFIG, tool_of
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail

NIC = {"rail": {"type": "int", "required": True}, "address": {"type": "str", "required": True}}
# "key" is the name of a setting, and no secret.
SETTING = {"key": {"type": "str", "required": True, "no_log": False}, "wanted": {"type": "str", "required": True}}
ARGUMENTS = {
    "nics": {"type": "list", "elements": "dict", "options": NIC, "required": True},
    "settings": {"type": "list", "elements": "dict", "options": SETTING, "required": True},
    "firmware": {"type": "str", "default": ""},
    "allow_reset": {"type": "bool", "default": False},
    "tool_path": {"type": "str", "default": TOOL_PATH},
}


def main() -> None:
    """Set what differs on each NIC."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    wanted, reports, failed = {each["key"]: each["wanted"] for each in params["settings"]}, {}, []
    host = LocalHost(params["tool_path"])
    # Neither tools nor NICs are asked for what nobody declared.
    rails = [Rail(**nic) for nic in params["nics"]] if wanted or params["firmware"] else []
    tool = ""
    try:
        tool = tool_of(host, CONFIG) if rails else ""
    except Unreadable as exc:
        rails, failed = [], [str(exc)]
    for rail in rails:
        report = Report()
        reports[str(rail)] = report
        try:
            reconcile(Device(host, tool, rail), wanted, module.check_mode, params["allow_reset"], report)
        except NicError as exc:
            failed.append(str(exc))
    steps = [
        f"{name}: {change.key} {change.wanted} in place of {change.held}"
        for name, report in reports.items()
        for change in report.changes
    ] + [f"{name}: reset" for name, report in reports.items() if report.reset]
    result = {
        "steps": steps,
        "pending": [why for report in reports.values() for why in report.pending],
        "other_firmware": [
            f"{name} runs {report.firmware}"
            for name, report in reports.items()
            if report.firmware and params["firmware"] not in ("", report.firmware)
        ],
        "changed": bool(steps),
        "diff": [_diff(name, report) for name, report in reports.items() if report.changes],
    }
    if failed:
        module.fail_json(msg="; ".join(failed), **result)
    module.exit_json(**result)


def _diff(name: str, report: Report) -> dict[str, str]:
    heads = {"before_header": f"{name} (next boot)", "after_header": f"{name} (next boot)"}
    before = "".join(f"{change.key} {change.held}\n" for change in report.changes)
    return {**heads, "before": before, "after": "".join(f"{c.key} {c.wanted}\n" for c in report.changes)}


if __name__ == "__main__":
    main()
