"""Documentation of the option by which the fleet is handed to what works on the control machine."""

from __future__ import annotations


class ModuleDocFragment:
    """The option ``fleet``."""

    DOCUMENTATION = r"""
options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
"""
