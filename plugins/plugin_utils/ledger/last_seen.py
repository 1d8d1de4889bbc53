"""How far a ledger had come when this control machine saw it last: what tells an older copy of it.

The gate file has the generation too, but is lost with its controller, and does not know what was decided while that was
away.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import Progress


def path_of(ledger_id: str) -> Path:
    """Return the file in which the progress of this ledger is kept: generation and last transition."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home, "muster", f"{quote(ledger_id, safe='')}.generation")


def last_seen(ledger_id: str) -> Progress | None:
    """Return the newest progress seen here, None where none was, or it cannot be read."""
    try:
        # Files of earlier versions have the generation alone.
        generation, *transition = map(int, path_of(ledger_id).read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return Progress(generation, transition[0] if transition else 0)


def remember(ledger_id: str, progress: Progress) -> None:
    """Keep the progress that was seen. Where that cannot be done, nothing is known: a lost gate asks for a switch."""
    path = path_of(ledger_id)
    with suppress(OSError):
        if last_seen(ledger_id) != progress:
            replace_file(path, f"{progress.generation} {progress.transition}\n")
