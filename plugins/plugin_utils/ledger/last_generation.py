"""The newest generation of a ledger that this control machine has seen: what tells an older copy of it.

The gate file has it too, but is lost with its controller.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file


def path_of(ledger_id: str) -> Path:
    """Return the file in which the generation of this ledger is kept."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home, "muster", f"{quote(ledger_id, safe='')}.generation")


def last_seen(ledger_id: str) -> int | None:
    """Return the newest generation seen here, None where none was, or it cannot be read."""
    try:
        return int(path_of(ledger_id).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def remember(ledger_id: str, generation: int) -> None:
    """Keep a generation that was seen. Where that cannot be done, nothing is known: a lost gate asks for a switch."""
    path = path_of(ledger_id)
    with suppress(OSError):
        if last_seen(ledger_id) != generation:
            replace_file(path, f"{generation}\n")
