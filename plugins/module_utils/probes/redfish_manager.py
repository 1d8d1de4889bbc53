"""The Redfish documents in which a BMC tells of itself: its firmware, and the address of its own network interface.

What preflight reads in place of ``redfish``: sensors and logs take a BMC many seconds. Paths of DMTF DSP0266:
``/redfish/v1/Managers/BMC``, ``/redfish/v1/Managers/BMC/EthernetInterfaces/eth0``.
"""

from __future__ import annotations

import re

from ..formats.bmc import NOT_DECLARED, bmc_declared
from ..host.host import Host, Output
from ..words.expectations import Expectations, stated
from . import redfish
from .redfish import Documents

NAME = "redfish_manager"

_MANAGER = re.compile(r"/redfish/v1/Managers/[^/]+/?")
_INTERFACE = re.compile(r"/redfish/v1/Managers/[^/]+/EthernetInterfaces/[^/]+/?")


def manager_declared(expect: Expectations) -> bool:
    """Return whether the class lists the document that tells the BMC's firmware."""
    return bmc_declared(expect, "redfish") and any(_MANAGER.fullmatch(path) for path in _documents(expect))


def collect(host: Host, expect: Expectations) -> Output:
    """Read those of the class' documents that are of this kind."""
    wanted = _documents(expect) if bmc_declared(expect, "redfish") else []
    return redfish.fetched(host, expect, wanted) if wanted else NOT_DECLARED


def parse(output: Output) -> Documents | None:
    """Return what the documents say, None where the class lists none of them; raises Unreadable."""
    return redfish.parse(output)


def _documents(expect: Expectations) -> list[str]:
    listed = stated(stated(expect.bmc).redfish).documents
    return [path for path in listed if _MANAGER.fullmatch(path) or _INTERFACE.fullmatch(path)]
