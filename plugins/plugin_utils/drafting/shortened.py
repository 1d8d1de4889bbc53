"""Lists of hosts and addresses, short enough for a line."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(names: Sequence[str], shown: int) -> str:
    """Return so many of the names, and of how many more there are: ``a, b and 3 more``; ``none`` of none."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown]) or 'none'}{more}"
