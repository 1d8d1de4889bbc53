"""Acceptance rounds as a person reads them: what was measured, where it is slow, how long it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.campaign import CONCLUDED
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import StoredRound
from ansible_collections.muster.cluster.plugins.plugin_utils.report import plots
from ansible_collections.muster.cluster.plugins.plugin_utils.report.compared import Places
from ansible_collections.muster.cluster.plugins.plugin_utils.report.figures import Figure, figures_of
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import (
    Measured,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.plots import (
    PlotError,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.slow import TableView, slow_of, tables_of


@dataclass(frozen=True)
class Recorded:
    """One campaign as the ledger has it, its observations already read (they are large).

    ``told`` says of a round by number what it showed; ``rounds`` need no observations any more.
    """

    campaign: str
    hardware_class: str
    rounds: tuple[StoredRound, ...]
    measured: Measured
    told: Mapping[int, str] = field(default_factory=dict)
    profile: LatencyProfile | None = None


@dataclass(frozen=True)
class RoundView:
    """One round on the timeline; ``left`` and ``width`` are percent of the campaign's time."""

    anchor: str
    number: int
    kind: str
    nodes: int
    jobs: int
    phases: str
    started: float
    took: str
    left: float
    width: float
    told: str


@dataclass(frozen=True)
class CampaignView:
    """One campaign, ready to print: ``slow`` names who is, ``notes`` say what could not be shown and why."""

    anchor: str
    hardware_class: str
    campaign: str
    started: float
    took: str
    rounds: tuple[RoundView, ...]
    slow: tuple[TableView, ...]
    figures: tuple[Figure, ...]
    tables: tuple[TableView, ...]
    notes: tuple[str, ...]
    # By node, the rounds that it took part in.
    of_node: Mapping[str, tuple[RoundView, ...]]

    @property
    def images(self) -> bool:
        """Return whether a figure holds an image, which the page must allow."""
        return any(figure.image for figure in self.figures)


def campaign_view(recorded: Recorded, places: Places, number: int) -> CampaignView:
    """Return the view of the page's campaign ``number``; never raises for what was measured."""
    name = f"campaign-{number}"
    # That a campaign has ended is no round.
    rounds = [each for each in recorded.rounds if each.plan.get("kind") != CONCLUDED]
    views, of_node = _timeline(rounds, recorded.told, name)
    notes = list(recorded.measured.notes)
    if recorded.measured.empty:
        notes.append("No measurement of this campaign can be drawn: its finished rounds hold none that can be read.")
    notes += [
        f"{node} received wrong data on local rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}."
        for node, ranks in recorded.measured.wrong.items()
    ]
    figures: list[Figure] = []
    try:
        plots.ready()
        figures = figures_of(recorded.measured, places, name)
    except PlotError as exc:
        notes.append(f"No plots: {exc}.")
    ends = [each.finished or each.started for each in rounds]
    first = min((each.started for each in rounds), default=0.0)
    return CampaignView(
        name,
        recorded.hardware_class,
        recorded.campaign,
        first,
        _seconds(max(ends, default=first) - first),
        views,
        slow_of(recorded.measured, places),
        tuple(figures),
        tables_of(recorded.measured, recorded.profile),
        tuple(notes),
        of_node,
    )


def _timeline(
    rounds: Sequence[StoredRound], told: Mapping[int, str], name: str
) -> tuple[tuple[RoundView, ...], dict[str, tuple[RoundView, ...]]]:
    if not rounds:
        return (), {}
    first = min(each.started for each in rounds)
    whole = max(1e-9, max(each.finished or each.started for each in rounds) - first)
    views: list[RoundView] = []
    of_node: dict[str, list[RoundView]] = {}
    for stored in rounds:
        groups = stored.plan.get("groups") or []
        end = stored.finished or stored.started
        view = RoundView(
            f"{name}-round-{stored.number}",
            stored.number,
            str(stored.plan.get("kind", "unknown")),
            len({node for group in groups for node in group}),
            len(groups),
            _moves(stored.plan),
            stored.started,
            "not finished" if stored.finished is None else _seconds(stored.finished - stored.started),
            round(max(0.0, min(99.0, 100 * (stored.started - first) / whole)), 2),
            round(max(1.0, min(100.0, 100 * (end - stored.started) / whole)), 2),
            told.get(stored.number, ""),
        )
        views.append(view)
        for node in {node for group in groups for node in group}:
            of_node.setdefault(node, []).append(view)
    return tuple(views), {node: tuple(mine) for node, mine in of_node.items()}


def _moves(plan: Mapping[str, Any]) -> str:
    """Return what a round did inside one start of its processes."""
    program = plan.get("program")
    phases = program.get("moves") if isinstance(program, Mapping) else None
    parts: list[str] = []
    collectives: dict[str, None] = {}
    sizes: set[int] = set()
    for phase in phases if isinstance(phases, list) else ():
        if not isinstance(phase, Mapping):
            continue
        steps, groups = phase.get("shifts") or phase.get("pairs"), phase.get("groups")
        if phase.get("kind") == "pairs" and isinstance(steps, list):
            parts.append(f"{len(steps)} permutation{'' if len(steps) == 1 else 's'} of pairs")
        elif phase.get("kind") == "groups" and isinstance(groups, list):
            collectives[str(phase.get("collective", "")).replace("_", "-")] = None
            sizes |= {len(group) for group in groups if isinstance(group, list)}
        else:
            parts.append(str(phase.get("kind", "")))
    if collectives:
        parts.append(f"{', '.join(collectives)} in groups of {', '.join(map(str, sorted(sizes)))}")
    return "; ".join(dict.fromkeys(parts))


def _seconds(seconds: float) -> str:
    if seconds < 0:
        return "the clock was set"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min"
