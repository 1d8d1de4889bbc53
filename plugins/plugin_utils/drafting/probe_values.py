"""What one host's probes printed, as values."""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import parsed
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable


class ProbeValues:
    """The values of a host's probes, each parsed when it is asked for the first time."""

    def __init__(self, collected: Collected) -> None:
        self.collected = collected
        self.host = collected.host
        self._values: dict[str, Any] = {}

    def value(self, probe: str) -> Any:
        """Return what a probe's output says; raises Unreadable where it was not run, or tells nothing."""
        if probe not in self._values:
            try:
                self._values[probe] = _parsed(probe, self.collected.outputs.get(probe))
            except Unreadable as exc:
                self._values[probe] = exc
        value = self._values[probe]
        if isinstance(value, Unreadable):
            raise value
        return value

    def value_or_none(self, probe: str) -> Any:
        """Return what a probe's output says, None where nothing can be told."""
        try:
            return self.value(probe)
        except Unreadable:
            return None


def _parsed(probe: str, output: Output | None) -> Any:
    value, reason, _ = parsed(output, PROBES[probe])
    if reason:
        raise Unreadable(reason)
    if value is None:
        raise Unreadable(f"{probe} was not asked for, as no BMC was declared")
    return value
