"""What nodes in service owe, in words that are the same on all nodes that owe the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import COMPONENTS
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Due

# As admission joins them: "evidence ID: COMPONENT was THEN, is NOW; COMPONENT unreadable in evidence ID; ...". What an
# identity differs in has semicolons of its own. A test asks admission, so that other words there are told.
_COMPONENT = rf"(?:{'|'.join(COMPONENTS)})"
_NEXT = re.compile(rf"; (?=evidence [^\s:;]+: |{_COMPONENT} unreadable )")
_OF_RECORD = re.compile(r"evidence [^\s:;]+: ")
_IN_RECORD = re.compile(rf"({_COMPONENT} unreadable) in evidence [^\s:;]+")
_CHANGE = re.compile(rf"({_COMPONENT} was .+?, is [^;]+)(?:; (.+))?", re.DOTALL)


def owed_of(due: Due) -> Iterator[str]:
    """Yield each thing that is owed for a stage, without the record's id, by which it would differ on every node.

    >>> list(owed_of(Due("burn_in", "evidence 5b0c: bios was 1.0, is 1.1; evidence 5b0c: microcode was 0x1, is 0x2")))
    ['bios was 1.0, is 1.1', 'microcode was 0x1, is 0x2']
    """
    for part in _NEXT.split(due.reason):
        text = _IN_RECORD.sub(r"\1 in its evidence", part)
        if beginning := _OF_RECORD.match(text):
            text = text[beginning.end() :]
        change = _CHANGE.fullmatch(text)
        yield from filter(None, change.groups()) if change else (text,)


def owed_text(stage: str, owed: str, nodes: int) -> str:
    """Return one thing that so many nodes owe; the same change on several is told as the one roll-out that it is.

    >>> owed_text("burn_in", "bios was 1.0, is 1.1", 232)
    'burn_in: bios was 1.0, is 1.1: one roll-out on 232 nodes'
    """
    rollout = nodes > 1 and _CHANGE.fullmatch(owed)
    return f"{stage}: {owed}" + (f": one roll-out on {nodes} nodes" if rollout else "")
