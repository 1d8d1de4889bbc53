"""Who meets whom: permutations of disjoint pairs in which everybody meets everybody once (the circle method).

The control machine plans with it and the ranks run by it: both need only the number of positions and of the shift.
"""

from __future__ import annotations


def rounds_of(count: int) -> int:
    """Return how many shifts it takes until each of ``count`` positions has met every other once."""
    if count < 2:
        return 0
    return count - 1 if count % 2 == 0 else count


def partner(count: int, shift: int, index: int) -> int | None:
    """Return whom position ``index`` of ``count`` meets in permutation ``shift``, None where it sits out.

    An odd number is paired as if there were one more, whose partner sits out. Raises ValueError for a position or
    shift that does not exist.
    """
    if not 0 <= index < count:
        raise ValueError(f"position {index}, expected 0 to {count - 1}")
    if not 0 <= shift < rounds_of(count):
        raise ValueError(f"shift {shift}, expected 0 to {rounds_of(count) - 1} for {count} positions")
    last = count - 1 if count % 2 == 0 else count
    if index == last:
        return shift
    other = (2 * shift - index) % last
    if other == index:
        other = last
    return other if other < count else None


def pairs(count: int, shift: int) -> list[tuple[int, int]]:
    """Return the disjoint pairs of permutation ``shift`` over ``count`` positions, each with the lower one first."""
    met = ((index, partner(count, shift, index)) for index in range(count))
    return [(index, other) for index, other in met if other is not None and index < other]
