"""What holds where a fleet file is silent, read once."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import plain

_FILE = Path(__file__).with_name("fleet_defaults.yml")


@lru_cache(maxsize=1)
def sourced_defaults() -> Mapping[str, Any]:
    """Return all of it, each number with its unit and its source."""
    data: Mapping[str, Any] = read_yaml(_FILE)
    return data


@lru_cache(maxsize=1)
def _plain_defaults() -> Mapping[str, Any]:
    data: Mapping[str, Any] = plain(sourced_defaults(), str(_FILE))
    return data


def shipped_defaults(section: str) -> dict[str, Any]:
    """Return one section without units and sources, the caller's own to change."""
    found: dict[str, Any] = deepcopy(_plain_defaults()[section])
    return found
