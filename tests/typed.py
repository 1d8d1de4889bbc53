"""What tests write as a dictionary, to change a key here and there, as the type that the program takes."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations

# What follows from a fleet file whose collectives use RDMA rails: nothing is marked, no cable verified.
RAILS_FABRIC: dict[str, Any] = {
    **{"kind": "roce", "routing": "ecmp", "peer_memory": "dmabuf", "port": None, "nccl_least": None},
    **{"verify_cabling": False, "ipoib": None},
}


def typed(data: Any) -> Expectations:
    """Return the expectations in a class' plain data; what is typed already comes back as it is."""
    return data if isinstance(data, Expectations) else read_expectations(data)


def undeclared(kind: type) -> dict[str, None]:
    """Return the keys that a section of a class may state as null, undeclared."""
    hints = get_type_hints(kind, include_extras=True)
    return {name.rstrip("_"): None for name, hint in hints.items() if type(None) in get_args(hint)}
