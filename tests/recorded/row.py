"""One expected verdict on one output of a real machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding


@dataclass(frozen=True)
class Row:
    """What ``checks`` must say of ``file`` once ``probe`` has read it.

    ``verdict`` is the worst of their findings, and what a careful engineer concludes from the file alone. ``expect`` is
    laid over the class hgx_h100, mapping by mapping: what the machine was declared to be. ``run`` turns the file's text
    into the probe's output where it is not that already (an excerpt, a compressed file).
    """

    file: str
    probe: str
    checks: tuple[str, ...]
    verdict: str
    expect: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    run: Callable[[bytes], Output] | None = None
    # What probe ``rail_names`` gives on the machine, for checks that ask it too.
    names: Callable[[bytes], Output] | None = None
    # In place of probe and checks, for what is judged on the control machine.
    judge: Callable[[bytes, Mapping[str, Any]], Sequence[Finding]] | None = None
