"""Every case of every field, part, line and contradiction; in one order, with nothing left to chance."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import INCOMPLETE, PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.plugin_utils import saved as saved_modules

from tests.fuzz.cases import findings
from tests.fuzz.sick import SICK as SICK_ROWS
from tests.fuzz.sick import healthy

from . import gpu_fields, host_fields, log_lines, nic_fields, saved_fields
from .field_meaning import NOT_FAIL, NOT_PASS, Case
from .meaning_variants import of_field, of_parts, of_told, written_oddly

# What a row of the fuzz's table is sick by may be nothing but a line's end.
_LOGS = ("kernel_log", "kernel_ring", "fabric_manager_log")


def all_cases() -> Iterator[Case]:
    """Yield every case."""
    for table in (gpu_fields, nic_fields, host_fields):
        for field in table.FIELDS:
            yield from of_field(field)
        for parts in table.PARTS:
            yield from of_parts(parts)
        for told in table.TOLD:
            yield from of_told(told)
    for told in log_lines.TOLD:
        yield from of_told(told)
    yield from _whole_outputs()
    yield from _saved()


def _whole_outputs() -> Iterator[Case]:
    """Yield whole outputs, healthy and sick, as people and terminals change them, and two of them in one."""
    for probe, check, variant in sorted({(row.probe, row.check, row.variant) for row in SICK_ROWS}):
        for how, text in written_oddly(healthy(probe, variant)):
            yield Case(f"{check} by {probe}: healthy {how}", probe, (check,), text, NOT_FAIL, variant)
        # A log that ends early is a shorter log: its own checks say whether it goes back far enough.
        if probe not in _LOGS:
            yield Case(f"{check} by {probe}: nothing at all", probe, (check,), "", NOT_PASS, variant)
    for row in SICK_ROWS:
        name, sick, well = f"{row.check} by {row.probe} ({row.old[:40]!r})", row.text(), healthy(row.probe, row.variant)
        texts = [*written_oddly(sick)]
        # What is sick by something that is missing is told beside a healthy output that has it.
        if set(sick.splitlines()) - set(well.splitlines()) and (row.log or row.probe not in _LOGS):
            texts += [("before a healthy one", sick + well), ("behind a healthy one", well + sick)]
        for how, text in texts:
            # The fabric manager was started anew behind what it had said before.
            started = row.probe == "fabric_manager_log" and how == "before a healthy one"
            if row.told(text) and not started:
                yield Case(f"{name}: sick {how}", row.probe, (row.check,), text, NOT_PASS, row.variant)


def _saved() -> Iterator[Case]:
    """Yield outputs that no check of a host reads: healthy ones, sick ones, both in one, and as people write them."""
    for saved in saved_fields.TABLE:
        for how, text in (("as it is", saved.text), *written_oddly(saved.text)):
            yield Case(f"{saved.name}: healthy {how}", saved.name, (), _clean(text), NOT_FAIL)
        for old, new, allowed in (*saved.faults, *saved.odd):
            sick = saved.text.replace(old, new, 1)
            if sick == saved.text:
                raise ValueError(f"{old!r} is not in the text of {saved.name}")
            texts = [("", sick), *written_oddly(sick)]
            if allowed != NOT_FAIL:
                texts += [(", before a healthy one", sick + saved.text), (", behind a healthy one", saved.text + sick)]
            # What is sick by a lost line is told beside a healthy output that has it.
            for how, text in texts if new else texts[:1]:
                name = f"{saved.name}: {old[:40]!r} is {new[-40:]!r}{how and ' '}{how}"
                yield Case(name, saved.name, (), _clean(text), allowed if not how else allowed | NOT_PASS)


def _clean(text: str) -> str:
    """Return a text as the modules get it: line ends are already what they should be."""
    return text.replace("\r\n", "\n")


def _judged_alone(case: Case) -> list[Finding]:
    """Return what the module of a saved output says of it; what it does not recognise it cannot judge."""
    module = importlib.import_module(f"{saved_modules.__name__}.{case.probe}")
    if not module.recognises(case.text):
        return [Finding(case.probe, "text", INCOMPLETE, reason="not recognised")]
    return list(module.findings(case.text, None))


def wrong(case: Case) -> str:
    """Return what is wrong with our answer to a case, "" if it is one of those that may follow."""
    said = [one for check in case.checks for one in findings(check, {case.probe: Output(case.text)}, case.variant)]
    if not case.checks:
        said = _judged_alone(case)
    if raised := next((one for one in said if "parser failed: " in one.reason or "check failed: " in one.reason), None):
        return f"{case.name}: raised: {raised.reason[:200]}"
    ours = worst(one.verdict for one in said)
    if ours in case.allowed:
        return ""
    blamed = next((one for one in said if one.verdict == ours), None)
    reason = (
        f" ({blamed.check} {blamed.subject}: {blamed.reason or blamed.measured})" if blamed and ours != PASS else ""
    )
    return f"{case.name}: {ours}, expected {' or '.join(sorted(case.allowed))}{reason[:220]}"
