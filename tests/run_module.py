"""Runs a module of the collection in this process, as Ansible runs it on a host."""

from __future__ import annotations

import importlib
import io
import json
from contextlib import redirect_stdout
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args


def run_module(name: str, /, check: bool = False, **arguments: Any) -> dict[str, Any]:
    """Return what the module answers to these arguments; ``check`` runs it in check mode."""
    module = importlib.import_module(f"ansible_collections.muster.cluster.plugins.modules.{name}")
    given = {**arguments, "_ansible_check_mode": check, "_ansible_diff": True}
    with patch_module_args(given), redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit):
        module.main()
    answer: dict[str, Any] = json.loads(printed.getvalue())
    return answer
