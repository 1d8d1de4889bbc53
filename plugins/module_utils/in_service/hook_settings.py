"""``/etc/muster/hooks.json``: what role slurm says to Slurm's hooks on a node."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..host.host import Unreadable
from ..words import reader
from ..words.deviation import Deviation
from ..words.reader import ReadError, Text


@dataclass(frozen=True)
class HookSettings:
    """What the hooks need to know.

    Groups whose members may log in without a job, directories in which each user of a job has one, and the deviations
    that are accepted on this node.
    """

    operator_groups: tuple[Text, ...]
    user_directories: tuple[reader.Path, ...] = ()
    waivers: tuple[Deviation, ...] = ()


def read_hook_settings(path: str) -> HookSettings:
    """Return the settings; raises Unreadable."""
    try:
        return reader.read(HookSettings, json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, ReadError) as exc:
        raise Unreadable(f"{path}: {exc}") from exc


def read_waivers(path: str) -> tuple[Deviation, ...]:
    """Return what is accepted on this node: nothing where the settings cannot be read."""
    try:
        return read_hook_settings(path).waivers
    except Unreadable:
        return ()
