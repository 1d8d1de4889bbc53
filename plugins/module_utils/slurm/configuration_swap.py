"""A controller's files swapped as a whole, safe against being killed.

A journal lies beside copies of the files as they were until slurmctld answers on the new ones; the next run begins by
putting them back.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..host.whole_files import replace_file
from .slurm_conf import ConfigurationError


@dataclass(frozen=True)
class Places:
    """Where things lie, and how long slurmctld may take: ``trial_seconds`` staged, ``start_seconds`` live."""

    directory: str = "/etc/slurm"
    work: str = "/var/lib/muster/slurm"
    unit: str = "slurmctld"
    trial_seconds: float = 60
    start_seconds: float = 120

    @property
    def journal(self) -> Path:
        """The record of a swap that is not finished."""
        return Path(self.work, "swap.json")

    @property
    def previous(self) -> Path:
        """The files as they were before the last swap."""
        return Path(self.work, "previous")

    @property
    def names(self) -> Path:
        """Which files the last swap wrote, so that one that is no longer wanted can go."""
        return Path(self.work, "files.json")

    @property
    def bootstrap(self) -> Path:
        """The mark by which slurmctld may start once without saved state; ``slurmctld-state`` takes it away."""
        return Path(self.work, "bootstrap")


class Swap:
    """The files of one controller on their way from one set to another; names without directory, None for no file."""

    def __init__(self, places: Places) -> None:
        self.places = places

    def before(self, wanted: Iterable[str]) -> tuple[dict[str, str | None], dict[str, bool] | None]:
        """Return the files as they are, or as they were before a swap that was not finished, and which those were.

        Raises ConfigurationError for a journal, or a copy, that cannot be read.
        """
        pending: dict[str, bool] | None = None
        with suppress(FileNotFoundError):
            try:
                pending = {str(name): bool(there) for name, there in _loaded(self.places.journal).items()}
            except (ValueError, AttributeError):
                # It is written in one step before anything else is touched: one that cannot be read is not ours.
                raise ConfigurationError(f"{self.places.journal}: not the journal of a swap; look at it") from None
        names = {*wanted, *self._known()}
        files = {name: _text(Path(self.places.directory, name)) for name in names}
        for name, there in (pending or {}).items():
            files[name] = _text(self.places.previous / name) if there else None
            if there and files[name] is None:
                raise ConfigurationError(f"{self.places.previous / name}: missing, though the journal names it")
        return files, pending

    def begin(self, before: Mapping[str, str | None], edited: Mapping[str, str | None]) -> None:
        """Keep the files as they are, say that a swap has begun, and write those that differ."""
        if edited:
            staged = self.places.previous.with_name("previous.new")
            shutil.rmtree(staged, ignore_errors=True)
            staged.mkdir(mode=0o755)
            for name, text in before.items():
                if text is not None:
                    _write(staged / name, text)
            shutil.rmtree(self.places.previous, ignore_errors=True)
            staged.rename(self.places.previous)
        _write(self.places.journal, json.dumps({name: before.get(name) is not None for name in edited}) + "\n")
        for name, text in edited.items():
            _write(Path(self.places.directory, name), text)

    def restore(self, names: Mapping[str, bool]) -> None:
        """Put files back; ``names`` says of each whether there was one."""
        for name, there in names.items():
            _write(Path(self.places.directory, name), _text(self.places.previous / name) if there else None)

    def forget_copies(self) -> None:
        """Let the copies go; that slurmctld may run on other files is still remembered."""
        _write(self.places.journal, "{}\n")

    def undone(self) -> None:
        """Say that the files as they were are back, and in effect."""
        self.places.journal.unlink()

    def done(self, names: Collection[str]) -> None:
        """Say that the new files are in effect, and which they are."""
        _write(self.places.names, json.dumps(sorted(names)) + "\n")
        self.places.journal.unlink()

    def _known(self) -> list[str]:
        try:
            return [str(name) for name in _loaded(self.places.names)]
        except (FileNotFoundError, ValueError, TypeError):
            return []


def _loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


def _write(path: Path, text: str | None) -> None:
    """Replace a file; None removes it."""
    if text is None:
        path.unlink(missing_ok=True)
    else:
        replace_file(path, text, 0o644)
