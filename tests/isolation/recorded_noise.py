"""What healthy hosts of the container lab show of noise, beside what simulated fleets with that noise show.

    PYTHONPATH=collections:. python -m tests.isolation.recorded_noise --fleets 100

prints by size of message the figures of Noise, and what becomes of so many simulated fleets with such noise. LAB is
the noise of simulated fleets that comes nearest to that of the recorded ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from ansible_collections.muster.cluster.plugins.plugin_utils.campaign.planner import Round
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.acceptance_planner import Planner
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings, size_text
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.matrix import Seen, phase_pairs

from tests.fleets import collectives

from .campaign import Server, plan_of, play
from .fleet import Fleet, Spec, expectations
from .recording import Recording, recordings

# Eight hosts, twenty iterations of an exchange. Floors are what the lab's class asks, of what is usual there.
LAB: Mapping[str, Any] = {
    "rails": 1,
    "noise": 0.25,
    "common": 0.5,
    "tail": 0.0,
    "small_tail": 0.18,
    "tail_to": 24.0,
    "floors": 0.3,
}
SEED = 1


@dataclass(frozen=True)
class Noise:
    """Noise of the sweep's exchanges at one size; of the slower side, which is judged, unless it says otherwise.

    ``fast`` and ``slow`` are how many times the median the 1 % and the 99 % take, ``spread`` the standard deviation of
    the logarithm from its lower half, ``twice`` the share beyond twice the median. ``common`` is the correlation of the
    two sides, ``beside`` that of exchanges at the same time, ``nodes`` how far the nodes' medians lie apart (standard
    deviation), ``asymmetry`` how much more than its partners the node counts that does so most (median of the
    logarithm, absolute), ``p99`` the median of the worst iteration over the median one.
    """

    spread: float
    fast: float
    slow: float
    twice: float
    common: float
    beside: float
    nodes: float
    asymmetry: float
    p99: float


@dataclass(frozen=True)
class _Sides:
    """The exchanges of a sweep at one size: permutation, both positions, logarithms of both sides' times, p99/p50."""

    step: Any
    one: Any
    other: Any
    here: Any
    there: Any
    p99: Any

    def noise(self) -> Noise:
        """Return the figures."""
        slower = np.maximum(self.here, self.there)
        middle = float(np.median(slower))
        fast, below, slow = (float(np.quantile(slower, share)) for share in (0.01, 0.1587, 0.99))
        both = np.concatenate([self.here, self.there]), np.concatenate([self.there, self.here])
        at = range(int(max(self.one.max(), self.other.max())) + 1)
        medians = [float(np.median(slower[(self.one == node) | (self.other == node)])) for node in at]
        more = self.here - self.there
        odd = [float(np.median(np.concatenate([more[self.one == node], -more[self.other == node]]))) for node in at]
        return Noise(
            middle - below,
            float(np.exp(fast - middle)),
            float(np.exp(slow - middle)),
            float(np.mean(slower > middle + np.log(2))),
            float(np.corrcoef(*both)[0, 1]),
            _beside(self.step, (self.here + self.there) / 2),
            float(np.std(medians)),
            max(map(abs, odd)),
            float(np.median(self.p99)),
        )


def _beside(step: Any, values: Any) -> float:
    """Return the correlation of values of the same step, NaN where no step has two."""
    off = (values - values.mean()) / values.std()
    total, squares, counts = (np.bincount(step, weights) for weights in (off, off**2, np.ones(len(off))))
    pairs = float((counts * (counts - 1)).sum())
    return float((total**2 - squares).sum()) / pairs if pairs else float("nan")


def noise_of(seen: Seen) -> dict[int, Noise]:
    """Return by size what the first sweep of a campaign shows, of each node's first rank."""
    _number, plan, item = min(seen, key=lambda each: each[0])
    phase = next(phase for phase in plan["program"]["moves"] if phase["kind"] == "pairs")
    step, one, other, _steps = phase_pairs(phase, len(item["group"]))
    found = {}
    for size in phase["sizes"]:
        rows = [each for each in item["results"] if (each["move"], each["bytes"]) == (phase["name"], size)]
        rows.sort(key=lambda each: int(each["step"]))
        ns, p99 = (np.array([each[key] for each in rows], dtype=float)[:, :, 0] for key in ("ns", "ns_p99"))
        logs, ratio = np.log(ns), p99 / ns
        found[size] = _Sides(step, one, other, logs[step, one], logs[step, other], ratio[step, one]).noise()
    return found


def averaged(campaigns: Iterable[Mapping[int, Noise]]) -> dict[int, Noise]:
    """Return by size the mean over campaigns."""
    by_size: dict[int, list[Noise]] = {}
    for campaign in campaigns:
        for size, noise in campaign.items():
            by_size.setdefault(size, []).append(noise)
    return {size: Noise(*np.mean([astuple(each) for each in found], axis=0)) for size, found in by_size.items()}


def of_healthy(hosts: int, found: Sequence[Recording]) -> list[Recording]:
    """Return the recordings of so many hosts of which none was slowed."""
    return [each for each in found if each.name.startswith(f"{hosts}-healthy")]


def simulated(hosts: int, fleets: int = 20, **spec: Any) -> dict[int, Noise]:
    """Return the same of simulated fleets."""
    # The lab's hosts all have the same way to each other.
    asked = Spec.usual(hosts, "clean", **{"rack": 0, **spec})
    campaigns = []
    for seed in range(SEED, SEED + fleets):
        fleet = Fleet(asked, seed)
        planner = Planner(fleet.nodes, (), Settings.of(collectives(expectations(asked)), fleet.places()))
        sweep = planner.next_round([])
        assert isinstance(sweep, Round)
        plan = plan_of(sweep)
        campaigns.append(noise_of([(1, plan, item) for item in fleet.run(plan)]))
    return averaged(campaigns)


def became(hosts: int, fault: str, fleets: int) -> str:
    """Return what becomes of simulated fleets with the lab's noise, as a line."""
    spec = Spec.usual(hosts, fault, **{"rack": 0, **LAB})
    with Server() as server:
        played = [play(server, spec, seed) for seed in range(SEED, SEED + fleets)]
    counts = (
        ("bad admitted", sum(len(each.wrongly_admitted) for each in played)),
        ("sound rejected", sum(len(each.wrongly_rejected) for each in played)),
        ("sound held", sum(len(each.held_innocents) for each in played)),
    )
    nodes = ", ".join(f"{count} {what}" for what, count in counts)
    return f"{fleets} fleets of {hosts} hosts, {fault}: of {fleets * hosts} nodes {nodes}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of what was recorded and of what is simulated."""
    parser = argparse.ArgumentParser(prog="recorded_noise", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--fleets", type=int, default=0, help="also play so many fleets with the lab's noise")
    options = parser.parse_args(arguments)
    found = recordings()
    rows = {
        f"{hosts} recorded hosts": averaged(noise_of(each.seen) for each in of_healthy(hosts, found))
        for hosts in (4, 8)
    }
    rows["8 simulated, LAB"] = simulated(8, **LAB)
    rows["8 simulated, 1 %"] = simulated(8, noise=0.01)
    print(f"{'':18} {'size':>8}", *(f"{each.name:>9}" for each in fields(Noise)))
    for what, by_size in rows.items():
        for size, noise in by_size.items():
            print(f"{what:18} {size_text(size):>8}", *(f"{value:9.3f}" for value in astuple(noise)))
    if options.fleets:
        for hosts in (8, 32):
            for fault in ("clean", "one_slow_10"):
                print(became(hosts, fault, options.fleets))
    return 0


if __name__ == "__main__":
    sys.exit(main())
