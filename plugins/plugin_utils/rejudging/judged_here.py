"""A node's word held against its raw output: the same checks judge it on the control machine, and a difference fails.

Pure: the same evidence and the same outputs give the same answer. It reads nothing of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import (
    Examination,
    latest_measures,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import (
    AlteredError,
    SavedError,
    examinations_of,
    measures_by_load,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import RawError, unpack
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import fingerprint_of
from ansible_collections.muster.cluster.plugins.module_utils.judging.identity import identity_of
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import (
    FAIL,
    INCOMPLETE,
    PASS,
    VERDICTS,
    Finding,
    merged,
)

CHECK = "rejudged"
# Differences that a reason names, and its length: a node may send anything.
_SHOWN = 5
_LONGEST = 2000


def judged_here(evidence: Evidence, fetched: Any, expect: Expectations | None, program: str) -> Finding | None:
    """Return None where a node's findings are those of its raw output, else what differs.

    ``fetched`` is the result of module raw_output_info on the node, ``program`` the digest of this machine's program.
    What cannot be judged is incomplete, and so is a difference in what another program judged; it stands all the same.
    """
    try:
        if expect is None:
            raise SavedError(f"node {evidence.node} has no hardware class")
        examinations = examinations_of(evidence, unpack(_outputs_in(evidence, fetched)), expect)
        found = merged((), [finding for each in examinations.values() for finding in each.findings])
        differences = [
            *_differences(evidence, found),
            *_other_measures(evidence, examinations),
            *_other_parts(evidence, examinations, expect),
        ]
    except AlteredError as exc:
        return _finding(FAIL, str(exc))
    except (RawError, SavedError) as exc:
        return _finding(INCOMPLETE, str(exc))
    except Exception as exc:  # noqa: BLE001 -- what a node sends must cost that node's pass, not everybody's run
        return _finding(INCOMPLETE, f"raw output of evidence {evidence.id}: {type(exc).__name__}: {exc}")
    if not differences:
        return None
    more = f"; and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    other = "" if evidence.program == program else " (another program judged it)"
    why = f"evidence {evidence.id} is not what its raw output says{other}: {'; '.join(differences[:_SHOWN])}{more}"
    return _finding(INCOMPLETE if other else FAIL, why, len(differences))


def _finding(verdict: str, why: str, differences: int | None = None) -> Finding:
    # It quotes what the node sent, and must be stored whatever that is.
    text = why[:_LONGEST].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return Finding(CHECK, "host", verdict, differences, 0, "differences", text, "investigate")


def _outputs_in(evidence: Evidence, fetched: Any) -> Any:
    """Return what a module sent; raises SavedError where it sent nothing."""
    given = fetched if isinstance(fetched, Mapping) else {"msg": "the node was not asked"}
    if given.get("unreachable") or given.get("failed") or not given.get("outputs"):
        why = str(given.get("msg") or "the node gave none")
        raise SavedError(f"raw output of evidence {evidence.id} is not there: {why}")
    return given["outputs"]


def _differences(evidence: Evidence, found: Sequence[Finding]) -> list[str]:
    """Return each finding that the raw output does not bear out.

    Of a burn-in the worst of many examinations counts, of which a few are kept: it may have found worse than these.
    """
    told = {(each.check, each.subject): each for each in merged((), evidence.findings)}
    here = {(each.check, each.subject): each for each in found}
    wrong = []
    for key, finding in here.items():
        said = told.get(key)
        if said is None or _worse(finding, said) or not (_in_part(evidence) or _same(finding, said)):
            wrong.append(f"{finding.check} {finding.subject}: {_text(said)} by the node, {_text(finding)} here")
    if not _in_part(evidence):
        wrong += [
            f"{check} {part}: {_text(said)} by the node, nothing here"
            for (check, part), said in told.items()
            if (check, part) not in here
        ]
    return wrong


def _other_measures(evidence: Evidence, examinations: Mapping[str, Examination]) -> list[str]:
    """Return each check whose measures, by which nodes are compared, are not those of the raw output."""
    told, here = evidence.detail.get("measures", {}), dict[str, Mapping[str, Mapping[str, float]]]()
    for news in measures_by_load(evidence, examinations):
        here = latest_measures(here, news)
    if not isinstance(told, Mapping):
        return [f"measures: {type(told).__name__} by the node, a mapping here"]
    wrong = [check for check in {**here, **told} if here.get(check) != told.get(check)]
    return [f"measures of {check}: others by the node than here" for check in wrong]


def _in_part(evidence: Evidence) -> bool:
    return evidence.stage == "burn_in"


def _worse(finding: Finding, than: Finding) -> bool:
    return VERDICTS.index(finding.verdict) < VERDICTS.index(than.verdict)


def _same(finding: Finding, said: Finding) -> bool:
    return (finding.verdict, finding.measured) == (said.verdict, said.measured)


def _text(finding: Finding | None) -> str:
    if finding is None:
        return "nothing"
    measured = "" if finding.measured is None else f" ({f'{finding.measured} {finding.unit}'.rstrip()})"
    return f"{finding.verdict}{measured}"


def _other_parts(evidence: Evidence, examinations: Mapping[str, Examination], expect: Expectations) -> list[str]:
    """Return the components and identifiers of which a preflight says something else than its raw output.

    A burn-in's are of its first examination, which is not kept; admission compares them with the preflight's.
    """
    if _in_part(evidence):
        return []
    (examination,) = examinations.values()
    here = {**fingerprint_of(examination.values, expect), **identity_of(examination.values, expect)}
    told = {**evidence.fingerprint, **evidence.identity}
    return [
        f"{name}: {told.get(name)} by the node, {here.get(name)} here"
        for name in {**here, **told}
        if name not in told or name not in here or told[name] != here[name]
    ]


def may_be_drawn(record: Any, accepted: Callable[[Finding], bool]) -> bool:
    """Return whether what a node gave says that it is finished, and of a burn-in that it counts as passed.

    ``accepted`` says of a finding that did not pass whether it is waived. Never raises.
    """
    if not isinstance(record, Mapping) or record.get("finished") is None:
        return False
    if record.get("stage") != "burn_in":
        return True
    findings = record.get("findings")
    try:
        told = [Finding.from_dict(each) for each in findings] if isinstance(findings, list) else None
    except ValueError:
        return False
    return told is not None and all(each.verdict == PASS or accepted(each) for each in told)
