"""Documentation of what the stages that measure between nodes, in rounds, have in common."""

from __future__ import annotations


class ModuleDocFragment:
    """Options and attributes of a stage's rounds."""

    DOCUMENTATION = r"""
options:
  fleet:
    description: The fleet, C(muster_fleet).
    type: dict
    required: true
  nodes:
    description:
      - Nodes under test, those whose earlier stages are passed. Nodes of different hardware classes are tested apart.
    type: list
    elements: str
    required: true
  partners:
    description: Admitted nodes that may be measured together with nodes under test.
    type: list
    elements: str
    default: []
  evidence:
    description:
      - Preflight evidence of this run, as a list by node; gives boot id and fingerprint. A node without it is skipped.
    type: dict
    required: true
  environment:
    description: Variables that the tests get.
    type: dict
    default: {}
  port:
    description: First of the 1,000 ports on which nodes meet; each round uses others than the last.
    type: int
    default: 29400
  budget_seconds:
    description: How long all rounds may take. Nodes that are not settled by then are incomplete.
    type: int
    default: 3600
  round_seconds:
    description: How long one round may take before it counts as hanging.
    type: int
    default: 300
attributes:
  check_mode:
    description: Says which round would be next; runs nothing and writes nothing.
    support: full
"""
