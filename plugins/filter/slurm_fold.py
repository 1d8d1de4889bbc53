"""Filter slurm_fold: host names as one Slurm host list."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.slurm import fold


def slurm_fold(names: Iterable[str]) -> str:
    """Return the names, in their order, as one Slurm host list."""
    if isinstance(names, str):
        raise AnsibleFilterError(f"slurm_fold: found the string {names!r}, expected a list of names")
    return fold(map(str, names))


class FilterModule:
    """The filter under its name."""

    def filters(self) -> dict[str, Callable[[Iterable[str]], str]]:
        """Return the filter by name."""
        return {"slurm_fold": slurm_fold}
