"""Muster's errors have one root and a name each."""

from __future__ import annotations

import builtins
import importlib
from collections import Counter
from pathlib import Path

from ansible_collections.muster.cluster import plugins
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

PLUGINS = Path(next(iter(plugins.__path__)))
# A signal's way out of whatever runs; catching errors must not catch it.
NO_ERRORS = {"Stopped"}


def exceptions() -> list[type[BaseException]]:
    """Return the exception classes of all plugins, but for those that a file keeps to itself."""
    found: dict[str, type[BaseException]] = {}
    for path in sorted(PLUGINS.rglob("*.py")):
        if "class " not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(".".join((plugins.__name__, *path.relative_to(PLUGINS).with_suffix("").parts)))
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, BaseException) and each.__module__ == module.__name__:
                found[f"{each.__module__}.{each.__qualname__}"] = each
    return [each for each in found.values() if not each.__name__.startswith("_")]


def test_every_error_derives_from_the_root() -> None:
    strangers = {each.__qualname__ for each in exceptions() if not issubclass(each, MusterError)}
    assert strangers == NO_ERRORS


def test_no_two_errors_share_a_name() -> None:
    names = Counter(each.__name__ for each in exceptions())
    assert [name for name, count in names.items() if count > 1 or hasattr(builtins, name)] == []
