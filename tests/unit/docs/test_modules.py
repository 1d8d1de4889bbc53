"""ansible-doc renders every module and lookup, and an action takes what its module documents."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = "ansible_collections.muster.cluster.plugins"


def names(kind: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / "plugins" / kind).glob("*.py"))


def documented(kind: str, folder: str) -> dict[str, Any]:
    """Return the documentation of all plugins of a kind, by name."""
    wanted = [f"muster.cluster.{name}" for name in names(folder)]
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-doc"), "--type", kind, "--json", *wanted],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "WARNING" not in done.stderr and "ERROR" not in done.stderr, done.stderr
    return {name.rpartition(".")[2]: found["doc"] for name, found in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def modules() -> dict[str, Any]:
    return documented("module", "modules")


def test_every_module_and_lookup_is_rendered(modules: dict[str, Any]) -> None:
    assert sorted(modules) == names("modules")
    assert sorted(documented("lookup", "lookup")) == names("lookup")


@pytest.mark.parametrize("name", [name for name in names("action") if name != "burn_in_wait"])
def test_an_action_takes_what_its_module_documents(modules: dict[str, Any], name: str) -> None:
    taken = importlib.import_module(f"{PLUGINS}.action.{name}").ActionModule.arguments
    told = modules[name]["options"]
    keys = ("type", "elements", "required", "default", "choices")
    assert {option: {key: spec[key] for key in keys if key in spec} for option, spec in taken.items()} == {
        option: {key: spec[key] for key in keys if key in spec} for option, spec in told.items()
    }
