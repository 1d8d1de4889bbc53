"""A check's answer about one part, and how answers are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

PASS = "pass"
FAIL = "fail"
# Could not be measured, parsed or finished. Opens nothing, blames nobody.
INCOMPLETE = "incomplete"
# Worst first.
VERDICTS = (FAIL, INCOMPLETE, PASS)

# Worst first: what a person has to do, most drastic before least.
ACTIONS = ("rma", "replace", "reseat", "reboot", "reset_gpu", "restart_app", "investigate", "none")

Value = Union[str, int, float, None]


@dataclass(frozen=True)
class Finding:
    """One check's verdict about one part.

    ``subject`` is the part's name as the hardware class spells it (``gpu SXM5 0000:ab:00.0``, ``host``), so that a
    finding can be matched with the list of parts on which one is owed. ``expected`` comes from the inventory, never
    from what was detected. Raises ValueError for a verdict or action outside the vocabulary.
    """

    check: str
    subject: str
    verdict: str
    measured: Value = None
    expected: Value = None
    unit: str = ""
    reason: str = ""
    action: str = "none"

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(
                f"finding {self.check}/{self.subject}: verdict {self.verdict!r}, expected one of {VERDICTS}"
            )
        if self.action not in ACTIONS:
            raise ValueError(f"finding {self.check}/{self.subject}: action {self.action!r}, expected one of {ACTIONS}")

    def to_dict(self) -> dict[str, Any]:
        """Return the eight fields as plain JSON data."""
        # asdict copies each field on its own, and a node has hundreds of findings.
        return dict(vars(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """Return the finding that ``to_dict`` wrote.

        Raises ValueError when a field is missing, unknown, of another type, or outside the vocabulary.
        """
        if not isinstance(data, (dict, Mapping)):
            raise ValueError(f"finding is {type(data).__name__}, expected a mapping")
        known = cls.__dataclass_fields__.keys()
        if known != data.keys():
            missing, unknown = known - data.keys(), data.keys() - known
            raise ValueError(f"finding: missing fields {sorted(missing)}, unknown fields {sorted(unknown)}")
        for key in ("check", "subject", "verdict", "unit", "reason", "action"):
            if not isinstance(data[key], str):
                raise ValueError(f"finding: {key} is {type(data[key]).__name__}, expected a string")
        for key in ("measured", "expected"):
            value = data[key]
            # NaN compares as neither below nor above a limit.
            if not isinstance(value, (str, int, float, type(None))) or isinstance(value, bool) or value != value:  # noqa: PLR0124
                raise ValueError(f"finding: {key} is {value!r}, expected a string, a number or nothing")
        return cls(**data)


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of the verdicts; no verdict at all is ``incomplete``, never ``pass``."""
    seen = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in seen), INCOMPLETE)


def merged(before: Sequence[Finding], now: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the worst finding on each (check, part): of equally bad ones the first, of passes the last."""
    best: dict[tuple[str, str], Finding] = {}
    for finding in (*before, *now):
        key = (finding.check, finding.subject)
        known = best.get(key)
        if known is None or VERDICTS.index(finding.verdict) <= VERDICTS.index(known.verdict) - (known.verdict != PASS):
            best[key] = finding
    return tuple(best.values())
