"""Evidence on the node's own disk: one directory for each record, never half written."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..words.evidence import Evidence
from .host import Output
from .raw_outputs import read_outputs, write_outputs
from .whole_files import PRIVATE, private_directory, replace_file

STATE_DIRECTORY = "/var/lib/muster"
# Enough to look back at; the ledger keeps them all.
KEPT_PER_STAGE = 5


def valid_id(text: str) -> bool:
    """Return whether ``text`` can be an evidence id, which is also a directory's name."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text))


class EvidenceStore:
    """The directory ``<state>/evidence/<stage>/<id>/``: evidence.json, and raw outputs beside it, for root alone."""

    def __init__(self, state_directory: str = STATE_DIRECTORY) -> None:
        self.root = Path(state_directory) / "evidence"

    def path(self, stage: str, evidence_id: str) -> Path:
        """Return where a record's evidence.json lies."""
        return self.root / stage / evidence_id / "evidence.json"

    def write(self, evidence: Evidence) -> Path:
        """Write the record and return its path; older ones of the stage beyond the last five are removed."""
        path = self.path(evidence.stage, evidence.id)
        self._make(path.parent)
        replace_file(path, json.dumps(evidence.to_dict(), indent=1, sort_keys=True) + "\n", PRIVATE)
        self._prune(path.parent)
        return path

    def write_raw(self, evidence: Evidence, name: str, outputs: Mapping[str, Output]) -> None:
        """Write what the tools printed to a directory beside the record."""
        write_outputs(self._make(self.path(evidence.stage, evidence.id).with_name(name)), outputs)

    def read_raw(self, stage: str, evidence_id: str, names: Iterable[str]) -> dict[str, dict[str, Output]]:
        """Return by directory what the tools printed; raises RawError."""
        return {name: read_outputs(self.path(stage, evidence_id).with_name(name)) for name in names}

    def read(self, stage: str, evidence_id: str) -> dict[str, Any]:
        """Return a record's JSON data; raises OSError or ValueError."""
        data = json.loads(self.path(stage, evidence_id).read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ValueError(f"{self.path(stage, evidence_id)}: {type(data).__name__}, expected a mapping")
        return data

    def ids(self, stage: str) -> list[str]:
        """Return the ids of the records of a stage."""
        return sorted(path.parent.name for path in (self.root / stage).glob("*/evidence.json"))

    def _make(self, directory: Path) -> Path:
        """Make a directory of the store; none on the way to it stays open to others."""
        place = private_directory(self.root)
        for name in directory.relative_to(self.root).parts:
            place = private_directory(place / name)
        return place

    def _prune(self, current: Path) -> None:
        others = sorted(
            (entry for entry in current.parent.iterdir() if entry != current and entry.is_dir()),
            key=lambda entry: entry.stat().st_mtime,
            reverse=True,
        )
        for entry in others[KEPT_PER_STAGE - 1 :]:
            shutil.rmtree(entry, ignore_errors=True)
