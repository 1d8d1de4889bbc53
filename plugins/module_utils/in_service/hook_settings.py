"""``/etc/muster/hooks.json``: what role slurm says to Slurm's hooks on a node."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..host.host import Unreadable
from ..words import reader
from ..words.reader import ReadError, Text


@dataclass(frozen=True)
class HookSettings:
    """Groups whose members may log in without a job, and directories in which each user of a job has one."""

    operator_groups: tuple[Text, ...]
    user_directories: tuple[reader.Path, ...] = ()


def read_hook_settings(path: str) -> HookSettings:
    """Return the settings; raises Unreadable."""
    try:
        return reader.read(HookSettings, json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, ReadError) as exc:
        raise Unreadable(f"{path}: {exc}") from exc
