"""``lscpu -J``: architecture, sockets, cores, threads, what is switched off.

The plain table of ``lscpu`` is understood as well. Fields: lscpu(1); util-linux 2.38 nests the JSON fields in
``children``, older ones do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "lscpu"
ARGV = ("lscpu", "-J")
TIMEOUT_SECONDS = 10.0

_LINE = re.compile(r"^[ \t]*(\S[^:\n]*):[ \t]*([^\n]*\S)[ \t]*\n", re.MULTILINE)
_ONLINE = "On-line CPU(s) list"
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
# What lscpu prints for what it does not know.
_UNKNOWN = ("-", "")


@dataclass(frozen=True)
class Cpu:
    """Sockets, physical cores in all of them; ``offline`` lists CPUs that are switched off (``48-95``), "" for none."""

    sockets: int
    cores: int
    model: str | None
    threads_per_core: int | None = None
    offline: str = ""
    # As the kernel calls it: x86_64, aarch64.
    architecture: str | None = None


def cores_of(values: Mapping[str, Any], expect: Expectations) -> int | None:
    """Return how many cores a host has: as declared, else as lscpu counts them; None where neither says."""
    found: Cpu | None = values.get(NAME)
    return expect.cpu.cores or (found.cores if found else None)


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Cpu:
    """Return what lscpu says; raises Unreadable."""
    require_success(output)
    text = output.stdout
    fields = _json_fields(text) if text.lstrip().startswith(("{", "[")) else dict(_LINE.findall(text))
    sockets = _count(fields, "Socket(s)")
    online = sum(int(last or first) - int(first) + 1 for first, last in _RANGE.findall(fields.get(_ONLINE, "")))
    cores = sockets * _count(fields, "Core(s) per socket")
    if 0 < online < cores and not fields.get("Off-line CPU(s) list"):
        raise Unreadable(f"{online} CPUs on line ({fields[_ONLINE][:60]}) of {cores} cores")
    model = fields.get("Model name", "")
    return Cpu(
        sockets,
        cores,
        None if model in _UNKNOWN else model,
        _count(fields, "Thread(s) per core") if "Thread(s) per core" in fields else None,
        fields.get("Off-line CPU(s) list", ""),
        fields.get("Architecture"),
    )


def _json_fields(text: str) -> dict[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {exc}") from exc
    return dict(_fields(document.get("lscpu") if isinstance(document, dict) else None))


def _fields(items: Any) -> Iterator[tuple[str, str]]:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            if isinstance(item.get("field"), str) and isinstance(item.get("data"), str):
                yield item["field"].rstrip(":"), item["data"]
            yield from _fields(item.get("children"))


def _count(fields: dict[str, str], name: str) -> int:
    text = fields.get(name, "")
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise Unreadable(f"{name} is {text or 'missing'}, expected a number")
    return int(text)
