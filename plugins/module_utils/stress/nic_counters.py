"""The NICs' error and flap counters before and after a time in which other stresses load the host."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ..host import blocks
from ..host.host import Host, Output, Unreadable
from ..probes import infiniband
from ..probes.infiniband import COUNTER_FILES, Device
from ..words.expectations import Expectations, NoSettings

NAME = "nic_counters"
RULES = 1
SETTINGS = NoSettings

_BEFORE, _AFTER = "before ", "after "


@dataclass(frozen=True)
class Readings:
    """The devices and their counters by name, as they were before and after."""

    before: Mapping[str, Device]
    after: Mapping[str, Device]


def collect(host: Host, expect: Expectations, seconds: float, settings: NoSettings) -> Output:
    """Read the counters, let ``seconds`` pass, read them again."""
    before = _read(host, _BEFORE)
    time.sleep(seconds)
    return blocks.listed({**before, **_read(host, _AFTER)})


def _read(host: Host, when: str) -> dict[str, Output]:
    return {f"{when}{path}": host.read(path) for path in host.paths(*COUNTER_FILES)}


def parse(output: Output) -> Readings:
    """Return both readings; raises Unreadable when one of them is missing or was cut off."""
    if output.rc != 0 or (output.stdout and not output.stdout.endswith("\n")):
        raise Unreadable(f"exit status {output.rc}, or no end of the last line; expected two whole readings")
    files = blocks.split(output.stdout)
    return Readings(_reading(files, _BEFORE), _reading(files, _AFTER))


def _reading(files: Mapping[str, Output], when: str) -> dict[str, Device]:
    own = {name[len(when) :]: block for name, block in files.items() if name.startswith(when)}
    if not own:
        raise Unreadable(f"no counters {when.strip()} load, expected those of every RDMA device")
    return infiniband.parse(blocks.joined(own))
