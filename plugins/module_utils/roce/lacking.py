"""What a host lacks before its ports can be set: devices, tools, and files of the driver."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..host.host import Host, Output
from ..host.waiting import retry
from .apply import POLL_SECONDS
from .decide import BACKENDS, wanted
from .port import Place, PortError, Source, collect, find
from .settings import PortSettings


def lacking(host: Host, ports: Sequence[PortSettings], wait_seconds: float) -> list[str]:
    """Return everything that is not there, each once with the settings and rails that need it; changes nothing.

    A setting that is there and reads oddly is not lacking: setting it may mend that. Waits for devices that are late.
    """
    deadline = time.monotonic() + wait_seconds
    absent: list[str] = []
    needed: dict[str, tuple[list[str], list[str]]] = {}
    for settings in ports:
        try:
            place, outputs = _outputs(host, settings, deadline - time.monotonic())
        except PortError as exc:
            absent.append(str(exc))
            continue
        values = wanted(settings)
        for source in BACKENDS[settings.backend].sources:
            asked = {name: values[name] for name in source.gives if name in values}
            if asked and (what := _lacks(source, place, outputs, asked)):
                names, rails = needed.setdefault(what, ([], []))
                names += [name for name in asked if name not in names]
                rails += [settings.name] if settings.name not in rails else []
    return absent + [
        f"{what} (needed for {', '.join(names)} of {', '.join(rails)})" for what, (names, rails) in needed.items()
    ]


def _outputs(host: Host, settings: PortSettings, wait_seconds: float) -> tuple[Place, Mapping[str, Output]]:
    place = retry(lambda: find(host, settings), PortError, wait_seconds, POLL_SECONDS)
    return place, collect(host, place, BACKENDS[settings.backend], frozenset(wanted(settings)))


def _lacks(source: Source, place: Place, outputs: Mapping[str, Output], asked: Mapping[str, Any]) -> str:
    """Return why the source cannot be asked at all, without the port's names; "" where it can."""
    words = source.at(place)
    if not words[0].startswith("/"):
        output = outputs[" ".join(words)]
        return output.error if output.rc is None and not output.timed_out else ""
    general = source.words[0].format(device="DEVICE", interface="INTERFACE")
    if not source.found(place, outputs):
        return "" if source.absent == asked else f"{general} is absent"
    output = outputs.get(words[0], Output())
    return f"{general}: {output.error}" if output.rc is None else ""
