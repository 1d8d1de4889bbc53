"""What SONiC's command line counts and flags: errors, drops of lossless traffic, FEC, PFC storms, transceivers.

Tables: sonic-net/sonic-utilities (portstat, pgdrop, queuestat, pfcstat, pfcwd, sfputil, intfutil). Flags and thresholds
of modules: CMIS. Without a class the lossless priorities are 3 and 4, as SONiC's own QoS templates have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import (
    fault,
    sound,
    unheld,
    unread,
    watch,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.text_sections import sections
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.printed_tables import ruled_table
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import OutputError

NAME = "SONiC"
_CHECK = "switch"
_LOSSLESS = (3, 4)
_PRIORITIES = 8
_ALL_PAUSED = "pauses on all eight priorities: PFC is not bound to the lossless ones"
# RS(544,514) mends up to 15 symbols of a codeword: one in this bin was one symbol from being lost.
_LAST_BIN = 15
# What IEEE 802.3 allows a link after FEC.
_POST_BER = 1e-12
_NOT_UP = "it is down or switched off: whether it must be up the plan says"

_EEPROM = re.compile(r"^(\w[\w/]*): SFP EEPROM (?:detected|is not applicable.*|not detected)", re.MULTILINE)
_STATUS = re.compile(
    r"^(\w[\w/]*):[ \t]*\n(?=[ \t]+(?:CMIS State|Tx fault flag|Current module state|Disabled TX channels))",
    re.MULTILINE,
)
_PM = re.compile(r"^(\w[\w/]*):[ \t]*\n\s+Parameter\s+Unit\s+Min\s+Avg\s+Max", re.MULTILINE)
_SICK_FLAG = re.compile(r"fault|loss of|alarm|unlocked|out of range|not accepted", re.IGNORECASE)
_FLAG = re.compile(r"^\s+([A-Z][^:\n]*?): (\w[^\n]*?)\s*$", re.MULTILINE)
_READING = re.compile(r"^\s+([A-Za-z]\w*)\s*: (-?\d+\.?\d*|-inf|N/A)\s*(dBm|mA|C|Volts|V)?\s*$", re.MULTILINE)
_CROSSED = re.compile(r"^\s+(\S.*?) {2,}\S+(?: +\S+){5,} +(True|False|N/A) .*?(True|False|N/A)\s*$", re.MULTILINE)

_Rows = Sequence[Mapping[str, str]]


def recognises(text: str) -> bool:
    """Return whether this is one of the tables that are judged."""
    return _reader(text) is not None


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return what each table says of each port."""
    lossless = expect.fabric.port.lossless_priorities if expect and expect.fabric and expect.fabric.port else _LOSSLESS
    found: list[Finding] = []
    for reader, part in _parts(text):
        try:
            found += list(reader(part, tuple(lossless))) or [unread(_CHECK, "switch", "no port is told")]
        except (OutputError, ValueError, KeyError, AttributeError, RecursionError) as exc:
            found.append(unread(_CHECK, "switch", f"cannot be read: {exc}"))
    return found or [unread(_CHECK, "switch", "none of the tables that are judged")]


def _parts(text: str) -> list[tuple[_Reader, str]]:
    """Return what stands under each table's header up to the next of another kind: several may be saved in one."""
    begins: dict[int, _Reader] = {}
    for pattern, reader in _READERS:
        for match in pattern.finditer(text):
            begins.setdefault(match.start(), reader)
    parts: list[tuple[_Reader, int]] = []
    for at in sorted(begins):
        if not parts or parts[-1][0] != begins[at]:
            parts.append((begins[at], at))
    ends = [at for _, at in parts[1:]] + [len(text)]
    return [(reader, text[at:end]) for (reader, at), end in zip(parts, ends, strict=False)]


_Reader = Callable[[str, Sequence[int]], Iterator[Finding]]


def _reader(text: str) -> _Reader | None:
    head = text[:20000]
    for pattern, reader in _READERS:
        if pattern.search(head):
            return reader
    return None


def _count(word: str) -> int | None:
    """Return a count such as ``1,000``, None where the switch counts nothing."""
    plain = word.replace(",", "").strip()
    if plain in ("N/A", ""):
        return None
    return int(plain)


def _rate(word: str) -> float:
    """Return a bit error rate such as ``1.2e-08``, 0 where none is told."""
    return float(word) if re.fullmatch(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", word) else 0.0


def _over_zero(row: Mapping[str, str], names: Sequence[str]) -> dict[str, int]:
    return {name: count for name in names if name in row and (count := _count(row[name]))}


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _tables(text: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows of all ruled tables of a text; an empty line or a title ends one."""
    lines = text.split("\n")
    rules = [index for index, line in enumerate(lines) if index and re.match(r"\s*-+(\s+-+)+\s*$", line)]
    for at, end in zip(rules, [*(each - 1 for each in rules[1:]), len(lines)], strict=False):
        yield from ruled_table("\n".join(lines[at - 1 : end]), "show")


def _interfaces(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for row in _tables(text):
        if bad := _over_zero(row, ("RX_ERR", "TX_ERR")):
            yield fault(_CHECK, row["IFACE"], f"errors were counted: {_said(bad)}", _said(bad), 0)
        elif drops := _over_zero(row, ("RX_DRP", "TX_DRP", "RX_OVR", "TX_OVR")):
            yield fault(_CHECK, row["IFACE"], f"packets were dropped: {_said(drops)}", _said(drops), 0)
        elif _count(row["RX_ERR"]) is None:
            yield unread(_CHECK, row["IFACE"], "the switch counts no errors of it")
        elif row["STATE"] != "U":
            yield unread(_CHECK, row["IFACE"], _NOT_UP)
        else:
            yield sound(_CHECK, row["IFACE"], "no errors")


def _fec(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for row in _tables(text):
        lost = _count(row["FEC_UNCORR"])
        if lost:
            yield fault(
                _CHECK, row["IFACE"], f"{lost} codewords that FEC could not mend: the link loses packets", lost, 0
            )
        elif lost is None:
            yield unread(_CHECK, row["IFACE"], "the switch counts no FEC of it")
        elif row["STATE"] != "U":
            yield unread(_CHECK, row["IFACE"], _NOT_UP)
        elif (left := _rate(row.get("FEC_POST_BER", ""))) > _POST_BER:
            yield watch(_CHECK, row["IFACE"], f"a bit error rate of {left:g} is left after FEC", left)
        else:
            yield sound(_CHECK, row["IFACE"], "none uncorrectable")


def _histogram(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    bins = {
        int(number): _count(count) or 0 for number, count in re.findall(r"^BIN(\d+)\s+([\d,]+)\s*$", text, re.MULTILINE)
    }
    if sorted(bins) != list(range(_LAST_BIN + 1)):
        yield unread(_CHECK, "port", f"{len(bins)} bins, expected 0 to {_LAST_BIN}")
    elif bins[_LAST_BIN]:
        reason = f"{bins[_LAST_BIN]} codewords had {_LAST_BIN} wrong symbols, the last that FEC mends"
        yield fault(_CHECK, "port", reason, bins[_LAST_BIN], 0)
    else:
        yield unheld(_CHECK, "port")


def _groups(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for row in _tables(text):
        drops = _over_zero(row, [name for name in row if re.fullmatch(r"PG\d", name)])
        yield _dropped(row["Port"], drops, [f"PG{each}" for each in lossless])


def _dropped(port: str, drops: Mapping[str, int], names: Sequence[str]) -> Finding:
    """Return what drops in these parts of a port mean, of which ``names`` are lossless."""
    if lost := {name: count for name, count in drops.items() if name in names}:
        return fault(_CHECK, port, f"lossless traffic was dropped: {_said(lost)}", _said(lost), 0)
    if drops:
        return watch(_CHECK, port, f"drops in lossy queues alone: {_said(drops)}", _said(drops))
    return sound(_CHECK, port, "no drops")


def _queues(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    drops: dict[str, dict[str, int]] = {}
    for row in _tables(text):
        counted = drops.setdefault(row["Port"], {})
        column = "Drop/pkts" if "Drop/pkts" in row else "WredDrp/pkts"
        if count := _count(row[column]):
            counted[row["TxQ"]] = count
    for port, counted in drops.items():
        yield _dropped(port, counted, [f"UC{each}" for each in lossless])


def _queues_json(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for port, queues in json.loads(text).items():
        if isinstance(queues, dict):
            counted = {
                name: count
                for name, queue in queues.items()
                if isinstance(queue, dict) and (count := _count(str(queue.get("droppacket", "N/A"))))
            }
            yield _dropped(port, counted, [f"UC{each}" for each in lossless])


def _pauses(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    """Yield what is wrong with where pauses are sent or heard: those of every priority are no lossless class's."""
    told: dict[str, dict[str, int]] = {}
    for row in _tables(text):
        key = next((name for name in row if name.startswith("Port ")), None)
        if key:
            names = [name for name in row if re.fullmatch(r"PFC\d", name)]
            told.setdefault(row[key], {}).update(
                {f"{key[5:]} {name}": each for name, each in _over_zero(row, names).items()}
            )
    for port, counts in told.items():
        paused = {name[-1] for name in counts}
        if len(paused) == _PRIORITIES:
            yield fault(_CHECK, port, _ALL_PAUSED, _said(counts))
        elif other := sorted(paused - {str(each) for each in lossless}):
            yield watch(_CHECK, port, f"pauses on priorities {', '.join(other)}", _said(counts))
        else:
            yield sound(_CHECK, port, _said(counts) or "no pauses")


def _history(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    paused: dict[str, set[int]] = {}
    # An empty line parts the ports, which share one header.
    for port, priority, count in re.findall(r"^\s*(\S+) +PFC(\d) +([\d,]+|N/A) ", text, re.MULTILINE):
        numbers = paused.setdefault(port, set())
        if _count(count):
            numbers.add(int(priority))
    for port, numbers in paused.items():
        if len(numbers) == _PRIORITIES:
            yield fault(_CHECK, port, _ALL_PAUSED)
        else:
            yield unheld(_CHECK, port)


def _storms(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for row in _tables(text):
        detected = _count(row["STORM DETECTED/RESTORED"].split("/")[0]) or 0
        if detected or row.get("STATUS", "operational").lower() == "stormed":
            reason = f"the PFC watchdog found {detected} storms: a host or switch sends pauses without an end"
            yield fault(_CHECK, row["QUEUE"], reason, detected, 0)
        else:
            yield sound(_CHECK, row["QUEUE"], "no storm")


def _ports(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for row in _tables(text):
        up, wanted = row["Oper"], row["Admin"]
        if up == "down" and wanted == "up":
            if row.get("Type", "N/A") not in ("N/A", ""):
                yield fault(_CHECK, row["Interface"], "down, with a module in it and not switched off", up, wanted)
            else:
                yield unread(_CHECK, row["Interface"], "down and without a module: whether it must be up the plan says")
        elif up == "down":
            yield unread(_CHECK, row["Interface"], "switched off")
        elif row.get("FEC") == "none" and re.match(r"[248]00G|1600G", row["Speed"]):
            yield unread(_CHECK, row["Interface"], f"up at {row['Speed']} without FEC contradict each other")
        else:
            yield sound(_CHECK, row["Interface"], up)


def _flags(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for mark, body in sections(_STATUS, text):
        port = mark[1]
        flags = dict(_FLAG.findall(body))
        bad = [name for name, value in flags.items() if value == "True" and _SICK_FLAG.search(name)]
        state = flags.get("Current module state", "")
        why = flags.get("Reason of entering the module fault state", "No Fault detected")
        if state == "ModuleFault" or why not in ("No Fault detected", "N/A"):
            bad.append(f"module fault: {why}")
        warned = [name for name, value in flags.items() if value == "True" and "warning" in name.lower()]
        # A module that was switched off is low on power and has no data path: nobody waits for it.
        odd = [f"{name}: {value}" for name, value in flags.items() if _at_odds(name, value)]
        if flags.get("CMIS State (SW)") == "FAILED":
            bad.append("SONiC could not set it up")
        if bad:
            yield fault(_CHECK, port, f"the module reports {_few(bad)}", len(bad), 0)
        elif not state or "Rx loss of signal flag" not in body:
            yield unread(_CHECK, port, "cut short, a module's flags are missing")
        elif odd:
            yield unread(_CHECK, port, f"the module does not carry traffic on all lanes: {_few(odd)}")
        elif warned:
            yield watch(_CHECK, port, f"the module warns: {_few(warned)}", len(warned))
        else:
            yield sound(_CHECK, port, state)


def _at_odds(name: str, value: str) -> bool:
    """Return whether a state is none of a port in use (xcvrd's states of CMIS, names of states as CMIS has them)."""
    return (
        (name == "Current module state" and value not in ("ModuleReady", "ModuleFault"))
        or (name == "CMIS State (SW)" and value not in ("READY", "FAILED", "N/A"))
        or (name.startswith("Data path state indicator") and value not in ("DataPathActivated", "N/A"))
        or (name.startswith("Configuration status") and value.startswith("ConfigRejected"))
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# By reading: the name that its thresholds begin with.
_LIMITED: tuple[tuple[str, str], ...] = (
    (r"RX\d+Power", "RxPower"),
    (r"TX\d+Power", "TxPower"),
    (r"TX\d+Bias", "TxBias"),
    ("Temperature", "Temp"),
)
_LIMITED += (("Vcc", "Vcc"),)


def _modules(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for mark, body in sections(_EEPROM, text):
        port = mark[1]
        read = {name: float(value) for name, value, _unit in _READING.findall(body) if value != "N/A"}
        bad, warned, judged = [], [], 0
        for name, value in read.items():
            kind = next((start for pattern, start in _LIMITED if re.fullmatch(pattern, name)), None)
            limits = [read.get(f"{kind}{each}") for each in ("LowAlarm", "HighAlarm", "LowWarning", "HighWarning")]
            # Modules that know no limits tell all of them as 0.
            if kind is None or None in limits or not any(limits):
                continue
            judged += 1
            low, high, low_warning, high_warning = (float(each or 0) for each in limits)
            if not low <= value <= high:
                bad.append(f"{name} {value:g} outside {low:g} to {high:g}")
            elif not low_warning <= value <= high_warning:
                warned.append(f"{name} {value:g} outside {low_warning:g} to {high_warning:g}")
        if bad:
            yield fault(_CHECK, port, f"outside the module's own alarm limits: {_few(bad)}", len(bad), 0)
        elif warned:
            yield watch(_CHECK, port, f"outside the module's own warning limits: {_few(warned)}", len(warned))
        else:
            # Copper has no light to be read: that it is missing is no fault, and proves nothing.
            yield sound(_CHECK, port, f"{judged} readings") if judged else unheld(_CHECK, port)


def _performance(text: str, lossless: Sequence[int]) -> Iterator[Finding]:
    for mark, body in sections(_PM, text):
        port = mark[1]
        rows = _CROSSED.findall(body)
        crossed = [name for name, high, low in rows if "True" in (high, low)]
        if crossed:
            yield fault(_CHECK, port, f"the module's thresholds were crossed: {_few(crossed)}", len(crossed), 0)
        elif not rows:
            yield unread(_CHECK, port, "cut short, no parameter")
        else:
            yield sound(_CHECK, port, f"{len(rows)} parameters")


def _header(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_READERS: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (_header(r"^\s*IFACE\s+STATE\s+FEC_CORR\s+FEC_UNCORR"), _fec),
    (_header(r"^\s*IFACE\s+STATE\s+(?:RX_OK.*)?RX_ERR"), _interfaces),
    (_header(r"^Symbol Errors Per Codeword\s+Codewords"), _histogram),
    (_header(r"^Ingress PG dropped packets:|^\s*Port(?:\s+PG\d){8}(?=[\s\S]*dropped)"), _groups),
    (_header(r"^\s*Port\s+TxQ\s+(?:Counter/pkts.*Drop/pkts|WredDrp/pkts)"), _queues),
    (_header(r'\A\s*\{[\s\S]*"droppacket"'), _queues_json),
    (_header(r"^\s*Port [RT]x(?:\s+PFC\d){8}"), _pauses),
    (_header(r"^\s*Port\s+Priority\s+RX Pause Transitions"), _history),
    (_header(r"^\s*QUEUE\s+STATUS\s+STORM DETECTED/RESTORED"), _storms),
    (_header(r"^\s*Interface\s+Lanes\s+Speed\s+MTU\s+.*Oper\s+Admin"), _ports),
    (_EEPROM, _modules),
    (_PM, _performance),
    (_STATUS, _flags),
)
