"""What ranks send, and what must arrive: a pattern whose exact value is known of every element.

Element i of rank r in an iteration is (r % 13 + 1) * ((i + iteration) % 11 + 1). Sums of integers below 2**24 are exact
in float32 in any order of addition: 77 per rank on average allows 200,000 ranks. Eleven divides no power of two, so a
block that arrives in the place of another shows; the iteration in it makes the last round's result a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

RANK_PERIOD = 13
INDEX_PERIOD = 11
# 12 MB: what is checked at a time, and what every rank prepares before it begins.
TILE_ELEMENTS = INDEX_PERIOD * 2**18


def contribution(rank: int) -> int:
    """Return the factor by which ``rank`` multiplies the pattern."""
    return rank % RANK_PERIOD + 1


def total_contribution(ranks: Iterable[int]) -> int:
    """Return the factor of the exact sum over ``ranks``."""
    return sum(contribution(rank) for rank in ranks)


class Pattern:
    """Writes and checks flat float32 tensors on one device."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        index = torch.arange(TILE_ELEMENTS + INDEX_PERIOD, device=device, dtype=torch.int32)
        self._base = (index % INDEX_PERIOD + 1).to(torch.float32)

    def fill(self, tensor: Any, rank: int, iteration: int) -> None:
        """Write what ``rank`` contributes in ``iteration``."""
        factor = contribution(rank)
        # The tile's length is a multiple of the period, so every slice begins with the pattern's first element.
        for part in self.torch.split(tensor, TILE_ELEMENTS):
            self.torch.mul(self._tile(part.numel(), iteration), factor, out=part)

    def wrong(self, tensor: Any, factors: Sequence[int], first: int, iteration: int) -> Any:
        """Return, as a tensor of one number, how many elements differ from the exact ones; NaN differs.

        ``tensor`` holds as many blocks of equal length as there are ``factors``: each is the pattern from its element
        ``first`` on, multiplied by the factor.
        """
        torch = self.torch
        rows = tensor.view(len(factors), -1)
        length = rows.shape[1]
        multipliers = torch.tensor(factors, device=tensor.device, dtype=torch.float32)
        count = torch.zeros((), device=tensor.device, dtype=torch.int64)
        step = max(1, TILE_ELEMENTS // max(1, length))
        for row in range(0, len(factors), step):
            for column in range(0, length, TILE_ELEMENTS):
                part = rows[row : row + step, column : column + TILE_ELEMENTS]
                tile = self._tile(part.shape[1], first + column + iteration)
                count += (part != multipliers[row : row + step, None] * tile).sum()
        return count

    def _tile(self, count: int, offset: int) -> Any:
        begin = offset % INDEX_PERIOD
        return self._base[begin : begin + count]
