"""How evenly switches that hash spread the flows of collectives over a leaf's uplinks; how many queue pairs help.

Assumed, each on the side of a worse spread: all rails below a leaf send upwards at line rate; each has one connection
at a time (a ring's), which its queue pairs share evenly (NCCL takes them in turn, or splits messages over them). A
hash puts each flow on any uplink with the same probability.

What is one flow. ``e_ecmp`` hashes the destination queue pair (Meta, SIGCOMM 2024): each queue pair is one.
``ecmp`` sees addresses and UDP ports: since Linux 5.8 mlx5 derives the source port of RoCE v2 from the numbers of both
queue pairs (mlx5_set_path_udp_sport in drivers/infiniband/hw/mlx5/qp.c), 14 bits of it, so that each queue pair is one
as well. Older drivers have one port for all queue pairs of a NIC: their number then changes nothing, and the estimate
for one holds. ``packet_spray`` and ``adaptive`` place packets, not flows; ``static`` goes by destination, however many
queue pairs lead there.
"""

from __future__ import annotations

import cmath
import functools
import math
from collections import Counter
from collections.abc import Iterable

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import HasRails
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import ROUTING, Fabric
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import expand

HASHED = ("ecmp", "e_ecmp")
PLACES_PACKETS = ("packet_spray", "adaptive")
QUEUE_PAIRS = (1, 2, 4, 8, 16, 32)
# A start of 4 (OCI, ML engineering guides) up to Llama 3's 16 flows between two GPUs; more cost NIC cache and ACKs.
CHOICES = (4, 8, 16)
# Chosen: the fullest uplink of a full leaf is asked for one and a half times what it carries; with one queue pair it is
# three to four times.
LIMIT = 1.5


def fullest_over_mean(routing: str, rails: int, uplinks: int, queue_pairs: int) -> float:
    """Return the expected load of a leaf's fullest uplink over the mean of all of them; 1 is even."""
    if rails < 1 or uplinks < 1 or queue_pairs < 1:
        raise ValueError(f"{rails} rails, {uplinks} uplinks, {queue_pairs} queue pairs: each is at least 1")
    if routing in PLACES_PACKETS:
        return 1.0
    flows = rails * (queue_pairs if routing in HASHED else 1)
    return _expected_maximum(flows, uplinks) * uplinks / flows


def recommended_queue_pairs(routing: str, uplinks: int | None) -> int:
    """Return how many queue pairs NCCL should use for each connection.

    The fewest of CHOICES with which a leaf that has as many rails as uplinks stays below LIMIT, else the most of them;
    the fewest where ``uplinks`` is not declared; 1 where queue pairs change nothing.
    """
    if routing not in HASHED or (uplinks is not None and uplinks < 2):
        return 1
    if uplinks is None:
        return CHOICES[0]
    good = (number for number in CHOICES if fullest_over_mean(routing, uplinks, uplinks, number) < LIMIT)
    return next(good, CHOICES[-1])


def uplinks_of(leaf: str | None, fabric: Fabric) -> int | None:
    """Return how many links lead upwards from a leaf; None where the switch is not declared."""
    for block in fabric.switches:
        if leaf in expand(block.name):
            return len(expand(block.uplinks.ports)) if block.uplinks else 0
    return None


def table_of(fabric: Fabric, nodes: Iterable[HasRails]) -> list[str]:
    """Return a Markdown table of the fabric's kinds of leaves, routing by routing; empty where none has uplinks."""
    below = Counter(rail.switch for node in nodes for rail in node.rails if rail.switch is not None)
    links = {
        name: len(expand(block.uplinks.ports))
        for block in fabric.switches
        if block.uplinks
        for name in expand(block.name)
    }
    kinds = Counter((rails, links[leaf]) for leaf, rails in below.items() if links.get(leaf))
    if not kinds:
        return []
    head = ["leaves", "rails", "uplinks", "routing", *(f"{number} QP" for number in QUEUE_PAIRS), "recommended"]
    rows = [head, ["---"] * len(head)]
    for (rails, uplinks), count in sorted(kinds.items()):
        for routing in ROUTING[fabric.kind]:
            spread = [f"{fullest_over_mean(routing, rails, uplinks, number):.2f}" for number in QUEUE_PAIRS]
            name = f"{routing} (declared)" if routing == fabric.routing else routing
            recommended = str(recommended_queue_pairs(routing, uplinks))
            rows.append([str(count), str(rails), str(uplinks), name, *spread, recommended])
    return [f"| {' | '.join(row)} |" for row in rows]


@functools.lru_cache(maxsize=64)
def _expected_maximum(balls: int, bins: int) -> float:
    """Return the expected number of balls in the fullest bin, exactly but for rounding.

    The numbers in the bins are independent Poisson numbers on the condition that they add up to ``balls``. That sum is
    read off the characteristic function, by a transform long enough that no other sum falls on the same place.
    """
    mean = balls / bins
    # The probability of more than this in any bin is below 1e-12.
    most = min(balls, math.ceil(mean + 9 * math.sqrt(mean) + 24))
    length = bins * most + 1
    chance = [math.exp(number * math.log(mean) - mean - math.lgamma(number + 1)) for number in range(most + 1)]
    whole = math.exp(balls * math.log(balls) - balls - math.lgamma(balls + 1))
    at_most = [0.0] * (most + 1)
    for place in range(length // 2 + 1):
        turn = cmath.exp(-2j * math.pi * place / length)
        back = cmath.exp(2j * math.pi * (place * balls % length) / length)
        # Each place but the first has a mirror image, as all numbers are real.
        weight = 1 if place == 0 or 2 * place == length else 2
        part, power = 0j, 1 + 0j
        for number in range(most + 1):
            part += chance[number] * power
            power *= turn
            at_most[number] += weight * (part**bins * back).real
    # E[max] is the sum over all numbers of the probability that the maximum is larger.
    return sum(1 - min(1.0, max(0.0, total / length / whole)) for total in at_most)
