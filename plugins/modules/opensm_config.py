#!/usr/bin/python
"""Module opensm_config: OpenSM's configuration, proven with the installed version before it is live."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opensm_config
short_description: Write the configuration of OpenSM after the installed version accepted it
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - OpenSM ignores what it does not understand. This module lets the installed version load the configuration
    (C(opensm -F FILE -c DUMP), which starts nothing) and compares the result with the settings. A key or routing engine
    that the version lacks, or a value that it misreads, is an error, and the file is not changed.
  - The manager is bound to one InfiniBand port by its GUID.
attributes:
  check_mode: {support: full, description: Tests the configuration and writes nothing.}
  diff_mode: {support: full, description: Shows the file before and after.}
options:
  path: {description: The configuration file., type: path, required: true}
  settings:
    description:
      - Value by key, as OpenSM writes them; booleans become C(TRUE) and C(FALSE). C(guid) follows from O(device).
    type: dict
    required: true
  device:
    description: RDMA device of the manager, as the host calls it; may be empty if it has only one InfiniBand port.
    type: str
    default: ""
  program: {description: Path of OpenSM., type: path, default: /usr/sbin/opensm}
  root: {description: "Prefix of C(/sys).", type: path, default: /}
seealso:
  - module: muster.cluster.opensm_info
"""

EXAMPLES = r"""
- name: Configure the subnet manager
  muster.cluster.opensm_config:
    path: /etc/muster/opensm/opensm.conf
    settings: {routing_engine: "updn,no_fallback", sm_priority: 14, qos: false}
    device: mlx5_0
"""

RETURN = r"""
device: {description: RDMA device of the port., returned: success, type: str, sample: mlx5_0}
port: {description: Number of the port., returned: success, type: str, sample: "1"}
guid: {description: GUID of the port., returned: success, type: str, sample: "0x946dae0300112233"}
"""

import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.nic.opensm import (
    OpensmError,
    infiniband_ports,
    port_of,
    prove,
    render,
)

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "settings": {"type": "dict", "required": True},
    "device": {"type": "str", "default": ""},
    "program": {"type": "path", "default": "/usr/sbin/opensm"},
    "root": {"type": "path", "default": "/"},
}


def text_of(value: object) -> str:
    """Return a value as OpenSM writes it: ``TRUE``, ``0x12``, ``(null)`` for nothing."""
    if isinstance(value, bool):
        return str(value).upper()
    return "(null)" if value in (None, "") else str(value)


def main() -> None:
    """Prove, then write."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    path = Path(params["path"])
    try:
        port = port_of(infiniband_ports(LocalHost(root=params["root"])), params["device"])
        settings = {key: text_of(value) for key, value in params["settings"].items()}
        settings["guid"] = port.guid
        prove(LocalHost(), params["program"], settings)
    except OpensmError as exc:
        module.fail_json(msg=f"{path} stays as it was: {exc}")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    after = render(settings)
    if after != before and not module.check_mode:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=module.tmpdir, delete=False) as file:
            file.write(after)
        Path(file.name).chmod(0o644)
        module.atomic_move(file.name, str(path))
    module.exit_json(
        changed=after != before,
        diff={"before": before, "after": after, "before_header": str(path), "after_header": str(path)},
        device=port.device,
        port=port.number,
        guid=port.guid,
    )


if __name__ == "__main__":
    main()
