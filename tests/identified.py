"""Variables with which a role configures the machine of a test, as if another machine had asked."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.systems import description

# For a play that identifies its hosts itself.
DECLARED: dict[str, Any] = {"muster_node": {}, "muster_control_system": {"boot_id": "another machine's"}}
# Whatever system the tests run on.
SYSTEM = description({"id": "debian", "release": "12", "name": "Debian GNU/Linux"})
IDENTIFIED: dict[str, Any] = {**DECLARED, "muster_system": {"boot_id": "of this machine", "system": SYSTEM}}
