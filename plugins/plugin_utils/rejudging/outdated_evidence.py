"""Evidence in the ledger that other rules judged: its nodes are asked to judge what they kept again."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import outdated
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import expect_digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Reader

# Of a preflight there is a new one in every run; rounds leave nothing on a node.
STAGE = "burn_in"


def outdated_burn_ins(fleet: Fleet, reader: Reader) -> dict[str, str]:
    """Return, by compute node, the burn-in whose kept outputs have to be judged by the present rules.

    It is the newest in the ledger, judged by other rules and by the expectations that the node's class still has.
    """
    if STAGE not in fleet.policy.stages:
        return {}
    stresses = [name for step in fleet.policy.burn_in_steps for name in step.run]
    owed = {
        name: (expect_digest_of(STAGE, plain(expect)), {check for check, _ in required(STAGE, expect, stresses)})
        for name, expect in fleet.classes.items()
    }
    found = {}
    for each in reader.judged_by(STAGE):
        node = fleet.compute.get(each.node)
        digest, checks = owed.get((node and node.hardware_class) or "", ("", set()))
        if each.expect_digest == digest and outdated(each.rules, STAGE, checks):
            found[each.node] = each.original
    return found
