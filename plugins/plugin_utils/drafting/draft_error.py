"""Why no hardware class can be drafted."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError


class DraftError(MusterError, ValueError):
    """What hosts show and no class can be made of; says which host, what was found and what was expected."""
