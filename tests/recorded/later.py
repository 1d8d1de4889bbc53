"""Outputs that no check of burn-in judges: other stages and other machines, a directory at a time."""

from __future__ import annotations

from .row import Row

ROWS: list[Row] = []
NOT_COVERED = {
    "aws/": "EFA and ParallelCluster: hosts with Trainium or EFA are not examined yet",
    "ior-mdtest/": "stage storage measures with a program of its own; IOR and mdtest are not run",
    "nccom-test/": "Trainium collectives: hosts with Trainium are not examined yet",
    "neuron/": "hosts with Trainium are not examined yet",
    "switch-arista/": "switches are no part of a host; their parsers read these in tests/unit/plugin_utils/switches",
    "switch-nxos/": "NX-OS is none of the systems that switch_audit asks",
    "switch-onyx/": "Onyx is none of the systems that switch_audit asks",
}
