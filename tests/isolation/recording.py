"""Campaigns of real hosts, kept so that the planner can be asked again what it makes of them.

    PYTHONPATH=collections:. python -m tests.isolation.recording FLEET_FILE OUT

writes the last campaign of the fleet's ledger. tests/isolation/lab/README.md has those that are kept.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Collectives, MiniClusters
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import plain, read
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.isolation.collective_settings import Settings, places_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.packed_json import read_json, written_json

LAB = Path(__file__).parent / "lab"
# What of an observation the planner reads of ranks that reached their end.
_KEPT = ("group", "started", "ok", "error", "missing", "unavailable", "reached", "results")


@dataclass(frozen=True)
class Recording:
    """A campaign: the class' sections that judge it, where its nodes are, and its rounds as ``Seen`` has them.

    ``states`` is by node what the run ended in.
    """

    name: str
    settings: Settings
    states: Mapping[str, str]
    seen: Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any]]]

    @property
    def nodes(self) -> list[str]:
        """Return the nodes under test."""
        return sorted(self.states)

    def before(self, number: int) -> list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]:
        """Return the rounds before one."""
        return [each for each in self.seen if each[0] < number]

    @property
    def plans(self) -> dict[int, Mapping[str, Any]]:
        """Return what each round was to do."""
        return {number: plan for number, plan, _item in self.seen}


def recordings() -> list[Recording]:
    """Return those of the lab."""
    return [recording_of(path) for path in sorted(LAB.glob("*.json.gz"))]


def recording_of(path: Path) -> Recording:
    """Return what a file holds."""
    kept = read_json(gzip.decompress(path.read_bytes()))
    collective = read(Collectives, kept["collective"], "collective")
    asked = kept["mini_clusters"] and read(MiniClusters, kept["mini_clusters"], "mini_clusters")
    settings = Settings.of(collective, kept["places"], None, LatencyProfile.of(asked))
    seen = [(each["number"], each["plan"], item) for each in kept["rounds"] for item in each["observations"]]
    return Recording(path.name.partition(".")[0], settings, kept["states"], seen)


def kept_of(fleet: Fleet, campaign: str | None = None) -> dict[str, Any]:
    """Return what a recording keeps of a campaign, the last where none is named; raises ValueError where there is none.

    States of nodes are those of now.
    """
    with Ledger.open(fleet.ledger.url, fleet.ledger.id, fleet.cluster, read_only=True).reading() as reader:
        campaigns = [each.campaign for each in reader.plans() if each.plan.get("program")]
        named = campaign or (campaigns[-1] if campaigns else "")
        # Its last round marks the end, and measured nothing.
        rounds = [each for each in reader.rounds(named) if each.plan.get("program") and each.observations]
        states = reader.states()
    if not rounds:
        raise ValueError(f"ledger of {fleet.cluster}: no finished rounds of campaign {named or '(none there)'}")
    nodes = sorted({node for each in rounds for group in each.plan["groups"] for node in group})
    expect = fleet.classes[str(fleet.compute[nodes[0]].hardware_class)]
    return {
        "collective": plain(expect.collective),
        "mini_clusters": None if expect.mini_clusters is None else plain(expect.mini_clusters),
        "places": {node: place for node, place in places_of(fleet).items() if node in nodes},
        "states": {node: states[node] for node in nodes},
        "rounds": [
            {
                "number": each.number,
                "plan": {key: each.plan[key] for key in ("kind", "groups", "program")},
                "observations": [_shortened(item) for item in each.observations or ()],
            }
            for each in rounds
        ],
    }


def _shortened(item: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: item[key] for key in _KEPT if key in item}
    return {**kept, "ranks": [rank for rank in item.get("ranks", ()) if rank.get("error")]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a recording."""
    parser = argparse.ArgumentParser(prog="recording", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("fleet", type=Path, help="the fleet file, which names the ledger")
    parser.add_argument("out", type=Path, help="the file to write, NAME.json.gz")
    parser.add_argument("--campaign", help="another campaign than the last, as the ledger names it")
    options = parser.parse_args(arguments)
    text = written_json(kept_of(Fleet.load(options.fleet), options.campaign))
    # The same campaign gives the same file: without the time at which it was compressed.
    options.out.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{options.out}: {len(text)} characters, {options.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
