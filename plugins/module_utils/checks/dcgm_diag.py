"""Did NVIDIA's diagnostic run every test that the class requires on every GPU, and did all of them pass?

A skipped test was not passed, nor is one that is not reported; DCGM 4.5 can also say Pass beside an error that kept the
test from measuring (NVIDIA/DCGM issue 284). What a version of it fails without cause (judging/known_bad.py) is not
measured either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..formats.dcgm import FAIL as FAILED
from ..formats.dcgm import PASS as PASSED
from ..formats.dcgm import SKIP, SOFTWARE, UNKNOWN, Report, Result, Trouble, gpus_named
from ..judging.known_bad import known_bad
from ..stress.dcgm_diag import Diagnosis
from ..words.expectations import Dcgm, Expectations, gpu_subjects, stated
from ..words.finding import ACTIONS, FAIL, INCOMPLETE, PASS, Finding

NAME = "dcgm_diag"
RULES = 4
PROBES: tuple[str, ...] = ("dcgm_diag",)
HOST = "host"
# The status of a failure that a version of DCGM is known to report of sound parts: it proves nothing.
_KNOWN = "known"
_WORDS = {PASSED: "passed", FAILED: "failed", _KNOWN: "failed without proof", SKIP: "was skipped"}

# dcgmErrorSeverity_t of dcgm_errors.h, DCGM 3.1 and later.
_MONITOR, _CONFIG, _RESET = 1, 5, 6
# What a message asks for, whatever test it stands in; the first that matches counts.
_BY_MESSAGE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), action)
    for pattern, action in (
        (r"(remap\w*|retire\w*)[^.]* pending|pending[^.]* (remap|retire)", "reset_gpu"),
        (r"remap\w*[^.]* fail|fail[^.]* remap", "rma"),
        (r"fallen off the bus|GPU is lost", "reboot"),
        # Configuration and software: the node is not as it should be, and no part of it is shown to be broken.
        (
            r"persistence mode|fabric ?manager|not yet initialized|system_not_ready|permission|environment",
            "investigate",
        ),
        (r"CUDA (API|library|driver)|unable to initialize|NVML|nouveau|graphics process|is in use", "investigate"),
        # Cooling, power and other load on the host weigh on these before the GPU does.
        (r"thermal|temperature|utilization for the GPU", "investigate"),
        (r"did not (reach|exceed) desired|stress level|power minimum", "investigate"),
    )
)
# A failure of these that is none of the above is the part's own; all others say that a number was missed.
_BY_TEST = {"memory": "rma", "memtest": "rma", "diagnostic": "rma", "eud": "rma", "pcie": "reseat"}


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts, and the host for tests of its software; none where the class has no DCGM."""
    parts = gpu_subjects(expect)
    return [*parts.values(), HOST] if parts and expect.dcgm is not None else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for each GPU and one for the host."""
    diagnosis: Diagnosis = values["dcgm_diag"]
    diagnosis = replace(diagnosis, report=_without_known(diagnosis.report))
    required = required_tests(diagnosis.level, stated(expect.dcgm))
    declared = gpu_subjects(expect)
    numbers = {address: number for number, address in (diagnosis.addresses or {}).items()}
    findings = [_host(diagnosis, required)]
    for address, subject in declared.items():
        if diagnosis.addresses is None:
            why = f"which GPU is at {address} is not known ({diagnosis.unmapped})"
            findings.append(Finding(NAME, subject, INCOMPLETE, reason=why, action="investigate"))
        elif address not in numbers:
            why = f"dcgmi lists no GPU at {address}"
            findings.append(Finding(NAME, subject, INCOMPLETE, reason=why, action="investigate"))
        else:
            findings.append(_gpu(subject, numbers[address], diagnosis, required))
    for address in sorted(set(numbers) - set(declared)):
        failed = _failed(numbers[address], diagnosis)
        if failed:
            findings.append(_failure(f"gpu {address}", failed, required, diagnosis.level))
    return findings


def required_tests(level: int, dcgm: Dcgm) -> list[str]:
    """Return the tests that a run of this level must have passed on every GPU of the class."""
    tests = [test for entry in dcgm.required if entry.level <= level for test in entry.tests]
    return list(dict.fromkeys([*tests, *(["eud"] if dcgm.eud_required and level == 4 else [])]))


def _without_known(report: Report) -> Report:
    """Return the report in which failures that are known of its version are none, and say what is known."""

    def weighed(result: Result) -> Result:
        said = [trouble.text for trouble in result.troubles]
        why = known_bad("dcgmi", report.version, result.test, said) if result.status == FAILED else ""
        return replace(result, status=_KNOWN, troubles=(Trouble(why),)) if why else result

    return replace(report, results=tuple(weighed(result) for result in report.results))


def _host(diagnosis: Diagnosis, required: Sequence[str]) -> Finding:
    """Judge what is said of the host, and what fails on a GPU that cannot be told."""
    results, level = diagnosis.report.results, diagnosis.level
    known = diagnosis.addresses or {}
    failed = [result for result in results if result.status == FAILED and result.gpu not in known]
    if failed:
        return _failure(HOST, failed, required, level)
    expected = "every test passes"
    doubts = []
    if not diagnosis.report.complete:
        doubts.append("the table is cut off")
    if not required:
        doubts.append(f"the class requires no test of level {level}")
    if SOFTWARE in required and not any(result.test == SOFTWARE and result.status == PASSED for result in results):
        doubts.append("no test of the host's software passed")
    told = [
        result
        for result in results
        if result.gpu is None
        and (result.status == UNKNOWN or _in_doubt(result) or (result.test == SOFTWARE and result.status != PASSED))
    ]
    told += [result for result in results if result.status == _KNOWN and result.gpu not in known]
    # GPUs that cannot be told say the same.
    doubts += dict.fromkeys(f"{result.name}: {_said(result)}" for result in told)
    if diagnosis.exit_status and not any(result.status in (FAILED, _KNOWN) or _in_doubt(result) for result in results):
        doubts.append(f"dcgmi ended with status {diagnosis.exit_status} and reports no failure")
    if doubts:
        return Finding(NAME, HOST, INCOMPLETE, None, expected, "", "; ".join(doubts), "investigate")
    return Finding(
        NAME, HOST, PASS, f"level {level}, DCGM {diagnosis.report.version or 'of unknown version'}", expected
    )


def _failed(number: int, diagnosis: Diagnosis) -> list[Result]:
    """Return what failed on one GPU, with what failed on the host and names this GPU as the reason."""
    return [
        result
        for result in diagnosis.report.results
        if result.status == FAILED
        and (
            result.gpu == number
            or (result.gpu is None and any(number in gpus_named(trouble.text) for trouble in result.troubles))
        )
    ]


def _gpu(subject: str, number: int, diagnosis: Diagnosis, required: Sequence[str]) -> Finding:
    failed = _failed(number, diagnosis)
    if failed:
        return _failure(subject, failed, required, diagnosis.level)
    own = [result for result in diagnosis.report.results if result.gpu == number]
    missing = [_missing(test, own, diagnosis.report.results) for test in required]
    missing += [] if required else [f"the class requires no test of level {diagnosis.level}"]
    doubts = [why for why in missing if why]
    doubts += [f"{r.name}: {_said(r)}" for r in own if _in_doubt(r) or (r.status == _KNOWN and r.test not in required)]
    if not diagnosis.report.complete:
        doubts.append("the table is cut off")
    expected = f"{', '.join(required)} pass"
    passed = sorted({result.test for result in own if result.status == PASSED})
    measured = f"level {diagnosis.level}: {len(passed)} tests pass"
    if doubts:
        why = f"DCGM GPU {number}: {'; '.join(doubts)}"
        return Finding(NAME, subject, INCOMPLETE, measured, expected, "", why, "investigate")
    watched = [f"{result.name}: {_said(result)}" for result in own if result.status == PASSED and result.troubles]
    return Finding(
        NAME, subject, PASS, measured, expected, "", "; ".join(watched), "investigate" if watched else "none"
    )


def _missing(test: str, own: Sequence[Result], results: Sequence[Result]) -> str:
    """Return why a required test is not passed on this GPU, or "" if it is."""
    # DCGM 2 and 3 test the software once for the host.
    found = [result for result in own if result.test == test] or [
        result for result in results if result.test == test == SOFTWARE and result.gpu is None
    ]
    wrong = [result for result in found if result.status != PASSED]
    if not found:
        whole = next((result for result in results if result.test == test and result.gpu is None), None)
        return f"{test} is required and {_said(whole) if whole else 'not reported'}"
    return f"{test} is required and {_said(wrong[0])}" if wrong else ""


def _in_doubt(result: Result) -> bool:
    return result.status == PASSED and any(trouble.severity != _MONITOR for trouble in result.troubles)


def _said(result: Result) -> str:
    words = _WORDS.get(result.status, "has an unknown status")
    texts = list(dict.fromkeys(trouble.text for trouble in result.troubles if trouble.text))
    return f"{words} ({' '.join(texts)[:400]})" if texts else words


def _failure(subject: str, failed: Sequence[Result], required: Sequence[str], level: int) -> Finding:
    action = min((_action(result) for result in failed), key=ACTIONS.index)
    names = ", ".join(dict.fromkeys(result.name for result in failed))
    reasons = []
    for result in failed:
        where = f" on DCGM GPU {result.gpu}" if result.gpu is not None and subject == HOST else ""
        reasons.append(f"{result.name} {_said(result)}{where}")
    why = f"dcgmi diag -r {level}: {'; '.join(dict.fromkeys(reasons))}"
    return Finding(NAME, subject, FAIL, f"{names}: fail", f"{', '.join(required)} pass", "", why[:1000], action)


def _action(result: Result) -> str:
    text = " ".join([result.name, *(trouble.text for trouble in result.troubles)])
    for pattern, action in _BY_MESSAGE:
        if pattern.search(text):
            return action
    severities = {trouble.severity for trouble in result.troubles}
    if _RESET in severities:
        return "reset_gpu"
    if result.test == SOFTWARE or _CONFIG in severities:
        return "investigate"
    return _BY_TEST.get(result.test, "investigate")
