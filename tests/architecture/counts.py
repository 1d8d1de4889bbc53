"""How declared data is read: raw look-ups beyond a border, and hand-written ways of validating a mapping.

    python tests/architecture/counts.py

prints ``raw_lookups`` and ``dialects`` with the places, and ends with 1 for a raw look-up or a second dialect.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
# What stands for declared data that is not typed yet: ``expect["gpu"]``, ``fleet["nodes"]``, ``params["rails"]``.
NAMES = ("expect", "expectations", "fleet", "params")
# Ansible's border: a module reads its parameters there, once.
BORDER = ("modules", "action", "lookup", "filter", "inventory", "test")
# Hand-written readers beside ``words/reader.py`` that there have been, by what they defined. Not among them is
# ``_check_plain`` of ``words/evidence.py``: it makes no dataclass of a mapping, it bounds what a node may nest in a
# record and keeps out text that no database or terminal takes.
DIALECTS = {
    "Section": "plugin_utils/fleet/declaration.py",
    "_Section": "plugin_utils/isolation",
    "Reader": "module_utils/host",
    "check_kind": "module_utils/words/expectations.py",
    "_whole": "module_utils/collectives/collective_program.py",
    "_fault": "module_utils/rounds",
    "from_fleet": "plugin_utils",
    "_verdict": "plugin_utils/report/verdict_rows.py",
}


def raw_lookups() -> Iterator[tuple[str, int]]:
    """Yield file and line of every look-up by key beyond a border."""
    for path in sorted(PLUGINS.rglob("*.py")):
        place = path.relative_to(PLUGINS)
        if place.parts[0] in BORDER:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)):
                continue
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if owner in NAMES and isinstance(node.slice.value, str):
                yield str(place), node.lineno


def dialects() -> Iterator[str]:
    """Yield the reader, and each dialect beside it that is still defined."""
    yield "read (module_utils/words/reader.py)"
    for name, place in DIALECTS.items():
        under = PLUGINS / place
        files = [under] if under.suffix else sorted(under.rglob("*.py"))
        found = [path for path in files if path.exists() and _defines(path, name)]
        if found:
            yield f"{name} ({', '.join(str(path.relative_to(PLUGINS)) for path in found)})"


def _defines(path: Path, name: str) -> bool:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return any(
        isinstance(node, kinds) and node.name == name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def main() -> int:
    """Print both counts; 1 if something is looked up by key, or read in a way of its own."""
    found, ways = list(raw_lookups()), list(dialects())
    print(f"raw_lookups {len(found)}")
    for place, line in found:
        print(f"  {place}:{line}")
    print(f"dialects {len(ways)}")
    print("".join(f"  {way}\n" for way in ways), end="")
    return int(bool(found) or len(ways) > 1)


if __name__ == "__main__":
    sys.exit(main())
