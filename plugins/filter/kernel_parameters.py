"""Filter kernel_parameters: what a hardware class wants on the kernel's command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.kernel_parameters import declared_parameters


def kernel_parameters(expect: Mapping[str, Any]) -> list[str]:
    """Return the words that the expectations of a class want at the boot loader."""
    try:
        return declared_parameters(expect)
    except (KeyError, TypeError) as exc:
        raise AnsibleFilterError(f"kernel_parameters: found no expectations of a class ({exc!r})") from exc


class FilterModule:
    """The filter under its name."""

    def filters(self) -> dict[str, Callable[[Mapping[str, Any]], list[str]]]:
        """Return the filter by name."""
        return {"kernel_parameters": kernel_parameters}
