"""Filter kernel_parameters: what a hardware class wants on the kernel's command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.host.kernel_parameters import declared_parameters
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError


def kernel_parameters(expect: Mapping[str, Any]) -> list[str]:
    """Return the words that the expectations of a class want at the boot loader."""
    try:
        return declared_parameters(read_expectations(expect))
    except ReadError as exc:
        raise AnsibleFilterError(f"kernel_parameters: found no expectations of a class ({exc})") from exc


class FilterModule:
    """The filter under its name."""

    def filters(self) -> dict[str, Callable[[Mapping[str, Any]], list[str]]]:
        """Return the filter by name."""
        return {"kernel_parameters": kernel_parameters}
