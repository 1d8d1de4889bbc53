"""Burn-ins of a fleet as its nodes measured them: sound ones with noise, and what is wrong put in by the tests."""

from __future__ import annotations

import random
from collections.abc import Iterable

from ansible_collections.muster.cluster.plugins.module_utils.nic.declared_nics import rail_subjects
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import gpu_subjects
from ansible_collections.muster.cluster.plugins.plugin_utils.admission.burn_in_cohort import BurnedIn
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED, laid
from tests.typed import typed

# A slot may be 10 C hotter than its likes, a rail 5 % slower.
_LIMITS = {
    "telemetry": {"slot_spread_celsius": 10},
    "nic_load": {
        **{"message_bytes": 2**22, "round_seconds": 60, "near_floor_percent": 50, "far_floor_percent": None},
        **{"gpu_floor_percent": 50, "spread_percent": 20, "rail_spread_percent": 5},
    },
}
_DECLARED = {**PLACED, "hgx_h100": laid(PLACED["hgx_h100"], _LIMITS)}
EXPECT = typed(expectations_of("hgx_h100", _DECLARED, "test"))
GPUS, RAILS = list(gpu_subjects(EXPECT).values()), rail_subjects(EXPECT)
MEMORIES = ("numa 0", "numa 1", "gpu")


class BurntFleet:
    """Nodes in racks; ``measures`` is what a test changes, by node, check, part and quantity."""

    def __init__(self, racks: int, each: int, seed: int = 0, celsius: float = 0.0, percent: float = 0.0) -> None:
        draw = random.Random(seed)
        self.rack = {f"n{rack}-{node}": f"r{rack}" for rack in range(racks) for node in range(each)}
        inlets = {f"r{rack}": draw.uniform(18, 32) for rack in range(racks)}
        # Each slot has its own place in the stream of air, each memory its own way to a NIC.
        slots = {part: draw.uniform(28, 45) for part in GPUS}
        usual = {memory: draw.uniform(250, 380) for memory in MEMORIES}
        self.measures: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
        for node, rack in self.rack.items():
            inlet = inlets[rack] + draw.gauss(0, 0.5)
            heat = {
                part: {"watts": draw.gauss(690, 5), "celsius": inlet + slots[part] + draw.gauss(0, celsius)}
                for part in GPUS
            }
            host = {
                "inlet_celsius": inlet,
                "outlet_celsius": inlet + draw.gauss(15, 1),
                "fan_rpm": draw.gauss(9000, 90),
            }
            load = {
                rail: {memory: rate * (1 + draw.gauss(0, percent / 100)) for memory, rate in usual.items()}
                for rail in RAILS
            }
            self.measures[node] = {"gpu_telemetry": {**heat, "host": host}, "nic_load": load}

    def warm(self, node: str, parts: Iterable[str], celsius: float) -> None:
        """Have these GPUs of a node be hotter."""
        for part in parts:
            self.measures[node]["gpu_telemetry"][part]["celsius"] += celsius

    def slow(self, node: str, rails: Iterable[str], memories: Iterable[str], percent: float) -> None:
        """Have these rails of a node be slower with these memories."""
        for rail in rails:
            for memory in memories:
                self.measures[node]["nic_load"][rail][memory] *= 1 - percent / 100

    @property
    def nodes(self) -> dict[str, BurnedIn]:
        """What the cohort is made of."""
        return {node: BurnedIn(self.rack[node], measures) for node, measures in self.measures.items()}
