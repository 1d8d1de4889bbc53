"""``mlxlink -d ADDRESS -m -c --json`` (or ``mstlink``): the physical layer of each rail's link, and its cable.

Format: the names of NVIDIA's MFT 4.21 to 4.35 and of mstflint's ``mstlink``, which is the same program. What the device
refuses, such as the histogram of a link that is down, is the status of the report, with exit status 1 and nothing on
stderr; what comes before the device is on stderr, and stdout has the codes of colours alone. A field that a port cannot
tell, and every counter of a link that is down, reads ``N/A``. A BER without an error reads ``15E-255``. Names of codes
and loopbacks: mlxlink/modules/mlxlink_maps.cpp of mstflint.
``Symbol BER`` is given for InfiniBand only, ``Link Down Counter`` by some versions for InfiniBand only. A passive
copper cable has no sensors: it reads N/A, or ``0 [0..0]``. The same report as text (without ``--json``) is understood
as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..nic.declared_nics import rails_of
from ..nic.nic_tools import LINK, tool_of
from ..words.expectations import Expectations, stated

NAME = "mlxlink"
# It talks to the adapter's firmware and the module's EEPROM over slow buses: 1 s is usual, 10 s on a busy one.
TIMEOUT_SECONDS = 30.0

_UNKNOWN = ("", "n/a", "unknown", "not supported")
_NUMBER = r"[-+]?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,4})?"
_RANGE = re.compile(rf"(.*?)\s*\[({_NUMBER})\.\.({_NUMBER})\]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# "Module FW Fault", "Rx LOS [per lane]", "Tx CDR LOL [per lane]", "LOS Alarm".
_FLAG = re.compile(r"\b(?:fault|los|lol|alarm|warning)\b", re.IGNORECASE)
_UNSET = ("0", "no", "none", "off")
_LANE_GBPS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
_CODE = re.compile(r"\(\s*([0-9]{2,4})\s*,\s*([0-9]{2,4})(?:\s*\+\s*[0-9]+)?\s*\)")


_TEMPERATURE, _RX_POWER, _TX_POWER = "Temperature [C]", "Rx Power Current [dBm]", "Tx Power Current [dBm]"
_SENSORS = (_TEMPERATURE, _RX_POWER, _TX_POWER)


@dataclass(frozen=True)
class Reading:
    """Values of a module's sensor (one for each lane, or one in all) and the module's own limits, where it has any."""

    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Link:
    """The link of one rail; a field that was not given, or not in a known form, is None.

    ``fec_histogram`` counts code words by the symbols that had to be corrected in them; ``fec_symbols`` is how many the
    link's code can correct. ``advice_code`` is 0 when the firmware found nothing wrong. ``flags`` are those of the
    module that are set, with the lanes where they are told by lane; ``limited`` are the sensors besides temperature and
    light for which the module has limits, by the name that is printed.
    """

    state: str | None = None
    physical_state: str | None = None
    speed: str | None = None
    width: str | None = None
    fec: str | None = None
    loopback: str | None = None
    raw_ber: float | None = None
    raw_ber_lanes: tuple[float | None, ...] = ()
    effective_ber: float | None = None
    symbol_ber: float | None = None
    effective_errors: int | None = None
    symbol_errors: int | None = None
    minutes: float | None = None
    link_downs: int | None = None
    link_recoveries: int | None = None
    fec_histogram: Mapping[int, int] = field(default_factory=dict)
    fec_symbols: int | None = None
    temperature: Reading = Reading()
    rx_power: Reading = Reading()
    tx_power: Reading = Reading()
    limited: Mapping[str, Reading] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    unread_flags: tuple[str, ...] = ()
    module_state: str | None = None
    configuration: str | None = None
    data_paths: tuple[str, ...] = ()
    cable_type: str | None = None
    monitored: str | None = None
    vendor: str | None = None
    part: str | None = None
    serial: str | None = None
    advice_code: int | None = None
    advice: str | None = None

    @property
    def infiniband(self) -> bool | None:
        """Whether the link speaks InfiniBand; None when the speed could not be read."""
        return None if self.speed is None else self.speed.startswith("IB-")

    @property
    def lane_gbps(self) -> float | None:
        """What one lane carries, in Gb/s; None where speed or width could not be read."""
        speed = self.speed or ""
        told = re.fullmatch(r"([0-9]{1,4})G(?:bE)?(?:_[0-9]{1,2}X)?", speed)
        if told and self.lanes:
            return float(told.group(1)) / self.lanes
        return _LANE_GBPS.get(speed[len("IB-") :]) if self.infiniband else None

    @property
    def lanes(self) -> int | None:
        """How many lanes the link has, None where its width could not be read."""
        told = re.fullmatch(r"([1-9][0-9]?)x", self.width or "")
        return int(told.group(1)) if told else None

    @property
    def gbps(self) -> float | None:
        """What all lanes carry together, in Gb/s; None where speed or width could not be read."""
        return None if self.lane_gbps is None or self.lanes is None else self.lane_gbps * self.lanes

    @property
    def passive(self) -> bool:
        """Whether the cable is of the kind that has no sensors."""
        return "passive" in (self.cable_type or "").lower() or self.monitored == "No"


@dataclass(frozen=True)
class Links:
    """Links by rail (``rail0``), and why the report on a rail could not be read."""

    links: Mapping[str, Link]
    unread: Mapping[str, str]


def tool_for(host: Host, expect: Expectations) -> str:
    """Return the tool that the class names, or else the one that the host has; raises Unreadable for none."""
    physical = stated(expect.nic).physical if rails_of(expect) else None
    if physical is None:
        raise Unreadable(f"{NAME}: the class declares no physical layer")
    return physical.tool or tool_of(host, LINK)


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once for each rail."""
    try:
        tool = tool_for(host, expect)
    except Unreadable as exc:
        return Output(rc=None, error=str(exc))
    wanted = stated(stated(expect.nic).physical).fec_histogram
    histogram = ("--rx_fec_histogram", "--show_histogram") if wanted else ()
    return blocks.joined(
        {
            rail.name: host.run((tool, "-d", rail.address, "-m", "-c", *histogram, "--json"), TIMEOUT_SECONDS)
            for rail in rails_of(expect)
        }
    )


def parse(output: Output) -> Links:
    """Return the links by rail; raises Unreadable when the text holds no report at all."""
    links: dict[str, Link] = {}
    unread: dict[str, str] = {}
    if output.stdout and not output.stdout.endswith("\n"):
        raise Unreadable("the last line has no end, expected a whole output")
    for rail, report in blocks.split(output.stdout).items():
        if report.error or report.rc != 0:
            unread[rail] = report.error or f"exit status {report.rc}: {_message(report)}"
            continue
        try:
            links[rail] = _link(_sections(report.stdout))
        except Unreadable as exc:
            unread[rail] = str(exc)
    if not links and not unread:
        raise Unreadable(f"begins with {output.stdout[:60]!r}, expected a report for each rail")
    return Links(links, unread)


def _message(report: Output) -> str:
    """Return the first line on stderr, or what the report itself gives as its status; never the codes of colours."""
    said = report.stderr or _COLOUR.sub("", report.stdout)
    if said.lstrip().startswith("{"):
        try:
            _sections(said)
        except Unreadable as exc:
            return str(exc)
        return "no message"
    lines = said.strip().splitlines()
    return lines[0][:200] if lines else "no message"


def _sections(text: str) -> dict[str, dict[str, Any]]:
    """Return the values by section and name."""
    if not text.lstrip().startswith("{"):
        return _text_sections(_COLOUR.sub("", text))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {exc}") from exc
    status = data.get("status")
    if not isinstance(status, dict) or status.get("code") != 0:
        said = status.get("message") if isinstance(status, dict) else None
        raise Unreadable(f"status is {str(said or status)[:200]!r}, expected 'success'")
    result = data.get("result")
    found = result.get("output") if isinstance(result, dict) else None
    if not isinstance(found, dict):
        raise Unreadable("JSON without result/output")
    return {name: section for name, section in found.items() if isinstance(section, dict)}


def _text_sections(text: str) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] | None = None
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""]):
        if re.fullmatch(r"-{3,}", following.strip()) and line.strip():
            current = sections.setdefault(line.strip(), {})
            continue
        key, colon, value = line.partition(":")
        if current is not None and colon:
            if key.strip() in current:
                raise Unreadable(f"{key.strip()!r} stands twice in one section")
            current[key.strip()] = value.strip()
    if not sections:
        raise Unreadable(f"begins with {text[:60]!r}, expected JSON or the sections of a report")
    return sections


def _link(sections: Mapping[str, Mapping[str, Any]]) -> Link:
    if "Operational Info" not in sections:
        raise Unreadable(f"sections are {', '.join(sections) or 'none'}, expected 'Operational Info' among them")
    operation = sections["Operational Info"]
    counters = sections.get("Physical Counters and BER Info", {})
    for name in ("Effective Physical Errors", "Symbol Errors", "Link Down Counter", "Link Error Recovery Counter"):
        if str(counters.get(name, "")).strip() not in ("", "N/A", "None") and _count(counters[name]) is None:
            raise Unreadable(f"{name} is {str(counters[name])[:60]!r}, expected a number")
    module = sections.get("Module Info", {})
    advice = sections.get("Troubleshooting Info", {})
    histogram = _histogram(sections.get("Histogram of FEC Errors", {}))
    flags, unread_flags = _flags(module)
    limited = {name: _reading(value) for name, value in module.items() if name not in _SENSORS}
    return Link(
        state=_text(operation.get("State")),
        physical_state=_text(operation.get("Physical state")),
        speed=_text(operation.get("Speed")),
        width=_text(operation.get("Width")),
        fec=_text(operation.get("FEC")),
        loopback=_text(operation.get("Loopback Mode")),
        raw_ber=_rate(counters.get("Raw Physical BER")),
        raw_ber_lanes=_lanes(counters.get("Raw Physical BER Per Lane")),
        effective_ber=_rate(counters.get("Effective Physical BER")),
        symbol_ber=_rate(counters.get("Symbol BER")),
        effective_errors=_count(counters.get("Effective Physical Errors")),
        symbol_errors=_count(counters.get("Symbol Errors")),
        minutes=_number(counters.get("Time Since Last Clear [Min]")),
        link_downs=_count(counters.get("Link Down Counter")),
        link_recoveries=_count(counters.get("Link Error Recovery Counter")),
        fec_histogram=histogram,
        fec_symbols=_correctable(operation.get("FEC")),
        temperature=_reading(module.get(_TEMPERATURE)),
        rx_power=_reading(module.get(_RX_POWER)),
        tx_power=_reading(module.get(_TX_POWER)),
        limited={name: reading for name, reading in limited.items() if reading.low is not None},
        flags=flags,
        unread_flags=unread_flags,
        module_state=_text(module.get("Module State")),
        configuration=_text(module.get("Error Code Response")),
        data_paths=tuple(filter(None, map(_text, _list(module.get("DataPath state [per lane]"))))),
        cable_type=_text(module.get("Cable Type")),
        monitored=_text(module.get("Digital Diagnostic Monitoring")),
        vendor=_text(module.get("Vendor Name")),
        part=_text(module.get("Vendor Part Number")),
        serial=_text(module.get("Vendor Serial Number")),
        advice_code=_count(advice.get("Status Opcode")),
        advice=_text(advice.get("Recommendation")),
    )


def _flags(module: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags that are set, and those that are told in an unknown way; not told (N/A) is neither."""
    found: list[str] = []
    unread: list[str] = []
    for name, value in module.items():
        if not _FLAG.search(name):
            continue
        said = [text for text in map(_text, [value] if isinstance(value, (int, float)) else _list(value)) if text]
        lanes = [str(lane) for lane, text in enumerate(said) if text.lower() not in _UNSET]
        known = all(re.fullmatch(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,4}|yes|on", text, re.IGNORECASE) for text in said)
        plain = name.partition(" [")[0]
        if lanes and "[per lane]" in name:
            plain += f" on lane {', '.join(lanes)}"
        if lanes:
            (found if known else unread).append(plain)
    return tuple(found), tuple(unread)


def _lanes(value: Any) -> tuple[float | None, ...]:
    """Return the rate of each lane, nothing where no lane tells one."""
    rates = tuple(map(_rate, _list(value)))
    return rates if any(rate is not None for rate in rates) else ()


def _histogram(section: Mapping[str, Any]) -> dict[int, int]:
    """Return how many code words had how many symbols corrected; the last of a range of symbols stands for it."""
    found: dict[int, int] = {}
    for name, value in section.items():
        if not name.startswith("Bin "):
            continue
        words = [str(word) for word in _list(value)]
        match = re.fullmatch(r"\[?(?:[0-9]{1,3}\s*[-,:.]+\s*)?([0-9]{1,3})\]?", words[0].strip()) if words else None
        count = _count(words[1]) if len(words) == 2 else None
        if match is None or count is None or int(match.group(1)) in found:
            # One bin that cannot be read leaves the histogram unread: it may be the one that matters.
            return {}
        found[int(match.group(1))] = count
    # Bins without a gap from 0: of a histogram with one lost nothing can be told.
    return found if sorted(found) == list(range(len(found))) or "[0]" not in str(section) else {}


def _correctable(value: Any) -> int | None:
    """Return how many symbols of a code word the code corrects: 15 for ``(544,514)``, 7 for ``(272,257+1)``."""
    match = _CODE.search(str(value))
    if not match:
        return None
    whole, data = int(match.group(1)), int(match.group(2))
    return (whole - data) // 2 if whole > data else None


def _reading(value: Any) -> Reading:
    text = _text(value) if not isinstance(value, dict) else ",".join(str(item) for item in _list(value))
    match = _RANGE.fullmatch(text or "")
    low, high = (float(match.group(2)), float(match.group(3))) if match else (None, None)
    numbers = [_number(item) for item in (match.group(1) if match else text or "").split(",")]
    values = () if None in numbers else tuple(number for number in numbers if number is not None)
    # Both limits 0: the module tells none.
    return Reading(values, low, high) if low != high else Reading(values)


def _list(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("values")
    if isinstance(value, list):
        return value
    return re.split(r"[\s,]+", value.strip()) if isinstance(value, str) else []


def _text(value: Any) -> str | None:
    text = str(value).strip() if isinstance(value, (str, int, float)) else ""
    return None if text.lower() in _UNKNOWN else text


def _number(value: Any) -> float | None:
    text = str(value).strip() if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
    return float(text) if re.fullmatch(_NUMBER, text) else None


def _rate(value: Any) -> float | None:
    """Return a bit error rate, None for what is no share of bits."""
    rate = _number(value)
    return rate if rate is not None and 0 <= rate <= 1 else None


def _count(value: Any) -> int | None:
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None
