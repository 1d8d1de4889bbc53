#!/usr/bin/python
"""Documentation of the action plugin of the same name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: switch_audit
short_description: Compare RoCE switches with the fleet file
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Logs in to SONiC, Cumulus Linux (NVUE) and Arista EOS switches over SSH, runs a fixed list of commands that only
    show, and compares every port that has a declared cable with the fleet's QoS, MTU, routing, addresses and cables.
  - An answer that is missing, late, partial or of unexpected form is C(incomplete) with the reason, never a pass. ECN
    marking is checked only if C(fabric.dcqcn) is on.
  - Prints one line for each switch and for each kind of finding on it, writes a report, and fails unless every switch
    passes.
  - Never reports a change, and writes no report in check mode.
options:
  fleet:
    description: The fleet, as the inventory gives it in C(muster_fleet). Its fabric must be RoCE.
    type: dict
    required: true
  switches:
    description: Names of the switches; empty selects all that have an address.
    type: list
    elements: str
    default: []
  user:
    description: User of the login. It only needs to show the running configuration.
    type: str
    required: true
  password:
    description: The user's password, from a vault. Without one O(key_file) or the keys of the agent are used.
    type: str
  key_file:
    description: A private key.
    type: path
  known_hosts:
    description: The file of the switches' host keys.
    type: path
    default: ~/.ssh/known_hosts
  accept_unknown_host_keys:
    description: Whether a switch that is not in O(known_hosts) is trusted. A changed key is never trusted.
    type: bool
    default: false
  port:
    description: The switches' TCP port.
    type: int
    default: 22
  parallel:
    description: Number of switches at a time.
    type: int
    default: 32
  connect_seconds:
    description: Time limit of connecting, and of logging in, in seconds.
    type: float
    default: 10
  command_seconds:
    description: Time limit of one command in seconds.
    type: float
    default: 60
  switch_seconds:
    description: Time limit of all commands of one switch in seconds.
    type: float
    default: 300
  leave_out:
    description:
      - Questions that are not judged. The report lists them. For what a system cannot tell and somebody else answers
        for, such as V(headroom) on EOS.
    type: list
    elements: str
    choices:
      - port
      - mtu
      - pfc
      - pfc_watchdog
      - trust
      - dscp
      - ecn
      - headroom
      - address
      - cable
      - errors
      - discards
      - pause_storms
      - ecmp
    default: []
  dest:
    description: The file that the report is written to, as JSON.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Audit two switches
  muster.cluster.switch_audit:
    fleet: "{{ muster_fleet }}"
    switches: [tor-0001, tor-0002]
    user: audit
    password: "{{ vault_switch_password }}"
    dest: build/switch_audit/report.json
"""

RETURN = r"""
verdicts:
  description: Number of switches by verdict.
  returned: when switches were asked
  type: dict
  sample: {fail: 1, incomplete: 0, pass: 1}
not_asked:
  description: Switches that have no address in the fleet.
  returned: when switches were asked
  type: list
  sample: []
report_file:
  description: Path of the report; in check mode the one that would have been written.
  returned: when switches were asked
  type: str
  sample: /srv/cluster/build/switch_audit/report.json
"""
