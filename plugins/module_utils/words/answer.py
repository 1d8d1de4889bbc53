"""Is a node's answer the one that was asked for? A stuck program, a cloned disk or a stale file gives another's."""

from __future__ import annotations

from typing import Any

from .evidence import Evidence, EvidenceError


def evidence_in(answer: Any, **asked: str) -> Evidence:
    """Return the evidence in ``answer``, which has to have each field of ``asked`` (``id``, ``node``, ...) as asked.

    Raises EvidenceError naming every field that differs, what was found and what was expected.
    """
    evidence = Evidence.from_dict(answer)
    wrong = [
        f"{key} is {getattr(evidence, key)!r}, expected {value!r}"
        for key, value in asked.items()
        if getattr(evidence, key) != value
    ]
    if wrong:
        raise EvidenceError(f"evidence of something else: {'; '.join(wrong)}")
    return evidence
