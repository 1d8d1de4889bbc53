"""Does every memory slot hold the declared module, at the declared speed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..probes.dmidecode_memory import Module, Modules
from ..words.expectations import Dimms, Expectations, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "dimms"
RULES = 2
PROBES: tuple[str, ...] = ("dmidecode_memory",)


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host and each declared slot; nothing where the class has no modules of its own (guests of a cloud)."""
    dimms = expect.memory.dimms
    return [] if dimms is None else ["host", *(f"dimm {slot}" for slot in dimms.slots or ())]


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare count, slots, sizes and speeds with the class; what it leaves undeclared, with the other modules."""
    found: Modules = values["dmidecode_memory"]
    dimms = stated(expect.memory.dimms)
    modules = [module for module in found.slots if module.mib != 0]
    size = dimms.size_mib or _usual([module.mib for module in modules])
    speed = dimms.speed_mts or _usual([module.mts for module in modules])
    by_slot = {module.slot: module for module in modules}
    findings = []
    for slot in dimms.slots or ():
        if slot in by_slot:
            findings.append(_module(by_slot[slot], size, speed, dimms))
        else:
            why = f"memory module missing in slot {slot}"
            findings.append(Finding(NAME, f"dimm {slot}", FAIL, "absent", "present", "", why, "reseat"))
    others = [_module(module, size, speed, dimms) for module in modules if module.slot not in (dimms.slots or ())]
    if dimms.slots is None:
        findings += [finding for finding in others if finding.verdict != PASS]
    else:
        why = "module in an undeclared slot"
        findings += [Finding(NAME, finding.subject, FAIL, "present", "absent", "", why, "reseat") for finding in others]
    return [*findings, _host(found, modules, findings, expect)]


def _module(module: Module, size: int | None, speed: int | None, dimms: Dimms) -> Finding:
    subject = f"dimm {module.slot}"
    for what, measured, wanted, unit, declared in (
        ("size", module.mib, size, "MiB", dimms.size_mib),
        ("speed", module.mts, speed, "MT/s", dimms.speed_mts),
    ):
        if measured is None or wanted is None:
            why = f"the firmware does not report the {what} of the module in slot {module.slot}"
            return Finding(NAME, subject, INCOMPLETE, measured, declared, unit, why, "investigate")
        if measured != wanted:
            against = "class value" if declared else f"spread across the host's modules, most have {wanted} {unit}"
            why = f"{what} of the module in slot {module.slot} ({module.part or 'part unknown'}): {against}"
            expected = declared or "as the other modules"
            return Finding(
                NAME, subject, FAIL, measured, expected, unit, why, "replace" if what == "size" else "reseat"
            )
    return Finding(NAME, subject, PASS, module.mib, dimms.size_mib, "MiB")


def _host(found: Modules, modules: Sequence[Module], findings: Sequence[Finding], expect: Expectations) -> Finding:
    dimms, sockets = stated(expect.memory.dimms), expect.cpu.sockets
    count = dimms.count or (len(dimms.slots) if dimms.slots else None)
    empty = [module.slot for module in found.slots if module.mib == 0]
    where = f" (empty: {', '.join(empty[:8])}{' and others' if len(empty) > 8 else ''})" if empty else ""
    if count is not None and len(modules) != count:
        why = f"{'fewer' if len(modules) < count else 'more'} memory modules than the class has{where}"
        return Finding(NAME, "host", FAIL, len(modules), count, "modules", why, "reseat")
    faulty = [finding for finding in findings if finding.verdict != PASS]
    if faulty:
        worst = min(faulty, key=lambda finding: (FAIL, INCOMPLETE).index(finding.verdict))
        why = f"{', '.join(finding.subject for finding in faulty[:8])}{' and others' if len(faulty) > 8 else ''}"
        return Finding(NAME, "host", worst.verdict, len(modules), count, "modules", f"see {why}", worst.action)
    if count is None and not found.complete:
        why = "no count declared, and the firmware's list of slots is not there to be compared with"
        return Finding(NAME, "host", INCOMPLETE, len(modules), None, "modules", why, "investigate")
    if count is None and len(modules) % sockets:
        why = f"the modules do not divide among {sockets} sockets{where}"
        return Finding(NAME, "host", FAIL, len(modules), None, "modules", why, "reseat")
    given = {"count": count, "size_mib": dimms.size_mib, "speed_mts": dimms.speed_mts}
    undeclared = [key for key, value in given.items() if value is None]
    why = f"undeclared: {', '.join(undeclared)}; modules compared with each other alone" if undeclared else ""
    return Finding(NAME, "host", PASS, len(modules), count, "modules", why)


def _usual(values: Sequence[int | None]) -> int | None:
    known = Counter(value for value in values if value is not None)
    # Of two that are as frequent the larger: what has lost capacity or speed is to blame.
    return max(known, key=lambda value: (known[value], value), default=None)
