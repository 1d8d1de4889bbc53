"""Is the physical layer of every rail's link sound: bit errors, forward error correction, light, temperature?

A raw bit error rate far above zero is how PAM4 signalling works; what counts is what is left after error correction
(effective and symbol rate), and how close the code words come to what the code can correct. What the module itself
flags as a fault, and a sensor outside the module's own limits, fails whatever the class says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..nic.declared_nics import COUNTER_END, rail_subjects, rails_of, subject_of
from ..probes.mlxlink import Link, Links, Reading
from ..words.expectations import Expectations, Nic, NicPhysical, Rail, stated
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "nic_physical"
RULES = 4
PROBES: tuple[str, ...] = ("mlxlink",)

# Lanes from 50 Gb/s on are PAM4, which works with Reed-Solomon codes alone (IEEE 802.3, clauses 134 and 161).
_PAM4_GBPS = 50
_NO_CODE = re.compile(r"no[ _-]?fec|fire[ _-]?code", re.IGNORECASE)
_NOT_UP = re.compile(r"disable|polling|sleep|recovery|test", re.IGNORECASE)
# Three errors at the usual limit of 1e-12 take 3e12 bits: 30 s at 100 Gb/s. Before that their absence proves nothing.
_PROVES_MINUTES = 0.5
# 15E-255 is printed where there was no error; no rate that is measured comes near.
_NONE = 1e-200

# What was found: verdict, measured, expected, unit, reason, action.
_Answer = tuple[str, Any, Any, str, str, str]


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the NIC parts of the rails; none where the class declares no physical layer."""
    return rail_subjects(expect) if expect.nic and expect.nic.physical is not None else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge each rail's report; the worst of it is the finding, and the reason names the rest."""
    report: Links = values["mlxlink"]
    return [_finding(rail, report, stated(expect.nic)) for rail in rails_of(expect)]


def _finding(rail: Rail, report: Links, nic: Nic) -> Finding:
    subject = subject_of(rail)
    link, limits = report.links.get(rail.name), stated(nic.physical)
    if link is None:
        why = f"{rail}: {report.unread.get(rail.name, 'no report')}"
        return Finding(NAME, subject, INCOMPLETE, reason=why, action="investigate")
    answers = list(_answers(link, limits, nic))
    order = (FAIL, INCOMPLETE, PASS)
    answers.sort(key=lambda answer: order.index(answer[0]))
    cable = f"cable {' '.join(word for word in (link.vendor, link.part) if word) or 'unknown'}"
    cable += f", serial {link.serial or 'unknown'}"
    if not answers:
        return Finding(NAME, subject, PASS, link.effective_ber, limits.effective_ber, "effective BER")
    verdict, measured, expected, unit, _, action = answers[0]
    said = "; ".join(answer[4] for answer in answers)
    return Finding(NAME, subject, verdict, measured, expected, unit, f"{rail}: {said} ({cable})", action)


def _answers(link: Link, limits: NicPhysical, nic: Nic) -> Iterator[_Answer]:
    if link.state is None:
        yield INCOMPLETE, None, "Active", "", "state could not be read", "investigate"
        return
    if link.state.lower() != "active":
        advice = f": {link.advice}" if link.advice else ""
        yield FAIL, link.state, "Active", "", f"link is {link.state}{advice}", "reseat"
        return
    if link.advice_code is None:
        yield INCOMPLETE, None, 0, "status opcode", "what the firmware found could not be read", "investigate"
    elif link.advice_code:
        said = f"firmware reports {link.advice_code}: {link.advice or 'no text'}"
        yield FAIL, link.advice_code, 0, "status opcode", said, "reseat"
    elif link.advice is not None and not link.advice.lower().startswith("no issue"):
        said = f"status opcode 0 and the recommendation '{link.advice}' contradict each other"
        yield INCOMPLETE, link.advice, "No issue was observed", "", said, "investigate"
    yield from _speed(link, nic)
    yield from _mode(link)
    yield from _bit_errors(link, limits)
    yield from _lane_rates(link, limits)
    yield from _errors(link)
    yield from _flaps(link, nic)
    yield from _corrections(link, limits)
    # A passive cable has no electronics that could set a flag: Rx LOS and CDR LOL are set on good links of ConnectX-7
    # over passive copper (MFT 4.35).
    if "passive" not in (link.cable_type or "").lower():
        yield from _flagged(link)
    if not link.passive:
        yield from _module(link, limits)


def _speed(link: Link, nic: Nic) -> Iterator[_Answer]:
    if link.gbps is None:
        said = f"speed {link.speed or 'unread'}, width {link.width or 'unread'}: the rate could not be told"
        yield INCOMPLETE, None, nic.speed_gbps, "Gb/s", said, "investigate"
    elif link.gbps < nic.speed_gbps:
        said = f"runs at {link.gbps:g} Gb/s ({link.width} {link.speed}), class rate {nic.speed_gbps:g}"
        yield FAIL, link.gbps, nic.speed_gbps, "Gb/s", said, "reseat"


def _mode(link: Link) -> Iterator[_Answer]:
    if link.physical_state is not None and _NOT_UP.search(link.physical_state):
        said = f"state Active and physical state {link.physical_state} contradict each other"
        yield INCOMPLETE, link.physical_state, "", "", said, "investigate"
    if link.loopback is not None and link.loopback.lower() != "no loopback":
        said = f"loopback is on ({link.loopback}): the port talks to itself"
        yield FAIL, link.loopback, "No Loopback", "", said, "investigate"
    pam4 = link.lane_gbps is not None and link.lane_gbps >= _PAM4_GBPS
    if pam4 and link.fec is not None and _NO_CODE.search(link.fec):
        said = f"error correction is '{link.fec}' at {link.lane_gbps:g} Gb/s per lane, which needs a Reed-Solomon code"
        yield FAIL, link.fec, "RS-FEC", "", said, "investigate"


def _bit_errors(link: Link, limits: NicPhysical) -> Iterator[_Answer]:
    rates = [("effective", link.effective_ber, limits.effective_ber)]
    # Ethernet ports tell no symbol rate; a port that does not say what it speaks owes it.
    if link.infiniband is not False:
        rates.append(("symbol", link.symbol_ber, limits.symbol_ber))
    rates.append(("raw", link.raw_ber, limits.raw_ber))
    for name, rate, limit in rates:
        if rate is None:
            yield INCOMPLETE, None, limit, f"{name} BER", f"{name} BER could not be read", "investigate"
        elif rate > limit:
            yield FAIL, rate, limit, f"{name} BER", f"{name} BER {rate:g}, class limit {limit:g}", "reseat"
    watch = limits.raw_ber_watch
    if link.raw_ber is not None and watch < link.raw_ber <= limits.raw_ber:
        said = f"raw BER {link.raw_ber:g} is above {watch:g}, still corrected: watch"
        yield PASS, link.raw_ber, limits.raw_ber, "raw BER", said, "investigate"


def _lane_rates(link: Link, limits: NicPhysical) -> Iterator[_Answer]:
    # The rate of the port is that of all lanes together: it hides one that is worse than the others.
    for lane, rate in enumerate(link.raw_ber_lanes):
        if rate is None:
            said = f"raw BER of lane {lane} could not be read"
            yield INCOMPLETE, None, limits.raw_ber, "raw BER", said, "investigate"
        elif rate > limits.raw_ber:
            said = f"raw BER {rate:g} on lane {lane}, class limit {limits.raw_ber:g}"
            yield FAIL, rate, limits.raw_ber, "raw BER", said, "reseat"
        elif rate > limits.raw_ber_watch:
            said = f"raw BER {rate:g} on lane {lane} is above {limits.raw_ber_watch:g}, still corrected: watch"
            yield PASS, rate, limits.raw_ber, "raw BER", said, "investigate"


def _errors(link: Link) -> Iterator[_Answer]:
    for name, count, rate in (
        ("effective", link.effective_errors, link.effective_ber),
        ("symbol", link.symbol_errors, link.symbol_ber),
    ):
        if count and rate is not None and rate < _NONE:
            said = f"{count} {name} errors and a {name} BER without any contradict each other"
            yield INCOMPLETE, count, 0, f"{name} errors", said, "investigate"
        elif count:
            said = f"{count} {name} errors were left after correction: watch"
            yield PASS, count, 0, f"{name} errors", said, "investigate"
    if link.minutes is not None and link.minutes < _PROVES_MINUTES:
        said = f"counters were cleared {link.minutes:g} min ago: they prove nothing yet"
        yield INCOMPLETE, link.minutes, _PROVES_MINUTES, "min", said, "investigate"


def _flaps(link: Link, nic: Nic) -> Iterator[_Answer]:
    # Some versions give them for InfiniBand only; there nic_errors reads the same counters from sysfs.
    for name, count, limit in (
        ("link_downed", link.link_downs, nic.errors["link_downed"]),
        ("link_error_recovery", link.link_recoveries, nic.errors["link_error_recovery"]),
    ):
        if count is not None and limit is not None and count > limit:
            bound = "at least " if count == COUNTER_END[name] else ""
            yield FAIL, count, limit, name, f"{name} {bound}{count}, class limit {limit}", "reseat"


def _corrections(link: Link, limits: NicPhysical) -> Iterator[_Answer]:
    if not limits.fec_histogram and not link.fec_histogram:
        return
    if not link.fec_histogram:
        yield INCOMPLETE, None, None, "", "histogram of corrected symbols could not be read", "investigate"
        return
    most = link.fec_symbols or max(link.fec_histogram)
    worst = max((symbols for symbols, words in link.fec_histogram.items() if words), default=0)
    if worst * 100 < limits.fec_watch_percent * most:
        return
    words = link.fec_histogram[worst]
    said = f"{words} code words needed {worst} of {most} correctable symbols"
    unit = "symbols corrected in one code word"
    if worst >= most:
        yield FAIL, worst, most - 1, unit, f"{said}: the next error is lost data", "reseat"
    else:
        yield PASS, worst, most - 1, unit, f"{said}: thin tail, watch", "investigate"


def _flagged(link: Link) -> Iterator[_Answer]:
    for flag in link.flags:
        yield FAIL, flag, "none", "", f"the module reports {flag}", "reseat"
    for flag in link.unread_flags:
        yield INCOMPLETE, None, "none", "", f"the module's {flag} could not be read", "investigate"
    if link.module_state is not None and "fault" in link.module_state.lower():
        yield FAIL, link.module_state, "Ready state", "", f"the module is in '{link.module_state}'", "reseat"
    elif link.module_state is not None and "ready" not in link.module_state.lower():
        said = f"link Active and a module in '{link.module_state}' contradict each other"
        yield INCOMPLETE, link.module_state, "Ready state", "", said, "investigate"
    if link.configuration is not None and re.search("reject|in ?use", link.configuration, re.IGNORECASE):
        said = f"the module answers '{link.configuration}' to what the port wants of it"
        yield INCOMPLETE, link.configuration, "", "", said, "investigate"
    # A module of two ports has lanes that are not this one's: as many as the link has must work.
    active = link.data_paths.count("DPActivated")
    if len(link.data_paths) % (link.lanes or 1) and len(link.data_paths) > (link.lanes or 1):
        said = f"{len(link.data_paths)} data paths of a link with {link.lanes} lanes: not all of them are its own"
        yield INCOMPLETE, len(link.data_paths), link.lanes, "lanes", said, "investigate"
    if link.data_paths and active < min(link.lanes or 1, len(link.data_paths)):
        others = ", ".join(dict.fromkeys(state for state in link.data_paths if state != "DPActivated"))
        said = f"the data path of {active} of {link.lanes or len(link.data_paths)} lanes is activated ({others})"
        yield FAIL, active, link.lanes, "lanes with DPActivated", said, "reseat"


def _module(link: Link, limits: NicPhysical) -> Iterator[_Answer]:
    for name, reading in link.limited.items():
        if not reading.values:
            yield INCOMPLETE, None, None, "", f"module's {name} could not be read", "investigate"
        yield from _outside(f"module's {name}", reading, "")
    limit = limits.module_celsius
    # 0 C is what a module shows that does not measure; none in a host that runs is colder.
    if not link.temperature.values or min(link.temperature.values) <= 0:
        yield INCOMPLETE, None, limit, "C", "module temperature could not be read", "investigate"
    else:
        hottest = max(link.temperature.values)
        own = link.temperature.high
        if hottest > limit:
            said = f"module at {hottest:g} C, class limit {limit:g}"
            yield FAIL, hottest, limit, "C", said, "investigate"
        elif own is not None and hottest > own:
            yield FAIL, hottest, limit, "C", f"module at {hottest:g} C, its own limit {own:g}", "investigate"
    # An active cable's light stays inside it, and most of them do not tell it.
    owed = not (link.cable_type or "").startswith("Active")
    for name, reading in (("received", link.rx_power), ("sent", link.tx_power)):
        yield from _light(name, reading, owed)


def _light(name: str, reading: Reading, owed: bool) -> Iterator[_Answer]:
    if not reading.values and owed:
        yield INCOMPLETE, None, None, "dBm", f"{name} light could not be read", "investigate"
    yield from _outside(f"{name} light", reading, "dBm")


def _outside(name: str, reading: Reading, unit: str) -> Iterator[_Answer]:
    for lane, value in enumerate(reading.values):
        low = reading.low is not None and value < reading.low
        high = reading.high is not None and value > reading.high
        if low or high:
            side = f"below the module's {reading.low:g}" if low else f"above the module's {reading.high:g}"
            where = f" on lane {lane}" if len(reading.values) > 1 or unit else ""
            said = f"{name}{where} {value:g}{unit and f' {unit}'}, {side}"
            yield FAIL, value, None, unit, said, "reseat"
