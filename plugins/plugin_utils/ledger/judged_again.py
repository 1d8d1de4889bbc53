"""A record that was judged again: what it has to share with the one for which it stands."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS, VERDICTS

# Judging again looks at the same outputs of the same examination: a host cannot make an old one new by it.
_SAME = ("started", "finished", "boot_id", "fingerprint", "identity", "expect_digest", "raw")
# What is no verdict is none that passes.
_RANK = {verdict: rank for rank, verdict in enumerate(VERDICTS)}


def refusal(item: Evidence, newest: Evidence | None) -> str:
    """Return why ``item`` cannot stand for the newest record of its stage on its node, "" if it can."""
    if newest is None or item.original == item.id:
        return "judged again, and the ledger has no record of which it was made"
    if newest.original != item.original:
        return f"made of {item.original}, the newest record is {newest.id}"
    if other := [key for key in _SAME if getattr(item, key) != getattr(newest, key)]:
        return f"made of {item.original}, which has another {', '.join(other)}"
    now: dict[tuple[str, str], int] = {}
    for each in item.findings:
        rank = _RANK.get(each.verdict, _RANK[INCOMPLETE])
        now[each.check, each.subject] = min(rank, now.get((each.check, each.subject), rank))
    for each in newest.findings:
        if each.verdict != PASS and now.get((each.check, each.subject), len(_RANK)) > _RANK[each.verdict]:
            return f"{each.check} {each.subject} is {each.verdict} in {newest.id}, which judging again does not undo"
    return ""
