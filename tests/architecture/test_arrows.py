"""The rooms of plugins import each other as ``arrows.yml`` says, in one direction only."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from .rooms import FLOORS, ROOT, Room, allowed, cycle_in, cycles, faults
from .table import PAGE, page

PLUGINS = ROOT / "plugins"
MOST_FILES = 12
# One file for each tool, question and load: a check is named for what it judges, as its probe may be.
OF_ONE_KIND = ("probes", "checks", "stress")


def test_imports_are_those_that_are_allowed() -> None:
    assert faults(PLUGINS, allowed()) == []


@pytest.mark.parametrize("floor", FLOORS)
def test_top_floor_holds_at_most_a_dozen_files(floor: str) -> None:
    files = sorted(path.name for path in (PLUGINS / floor).iterdir() if path.is_file())
    assert len(files) <= MOST_FILES, files


def test_a_file_is_found_by_its_name() -> None:
    places = defaultdict(list)
    for floor in FLOORS:
        for path in sorted((PLUGINS / floor).rglob("*.py")):
            if path.parent.name not in OF_ONE_KIND:
                places[path.name].append(path.relative_to(ROOT).as_posix())
    assert [same for same in places.values() if len(same) > 1] == []


def _plugins(place: Path, **files: str) -> Path:
    """Write a small tree: keyword ``module_utils__low__a`` is ``module_utils/low/a.py``."""
    for name, text in files.items():
        path = place.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return place


LOW, HIGH = "module_utils/low", "module_utils/high"
NOWHERE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "\nfrom ..low.a import X\n",
        "\nfrom ..low import a\n",
        "\nfrom ansible_collections.muster.cluster.plugins.module_utils.low import a\n",
        "\nfrom ansible_collections.muster.cluster.plugins.module_utils.low.a import X\n",
        "\nimport ansible_collections.muster.cluster.plugins.module_utils.low.a\n",
        "def late():\n    from ..low import a\n",
        "\nCOMMANDS = {'a': ('low.a:main', 'does it')}\n",
        "\nPROGRAM = '..low.a'\n",
    ],
)
def test_import_that_is_not_allowed_is_named_with_its_place(tmp_path: Path, text: str) -> None:
    plugins = _plugins(tmp_path, module_utils__low__a="X = 1\n", module_utils__high__b=text)
    rooms = {LOW: Room("", NOWHERE), HIGH: Room("", NOWHERE)}
    assert faults(plugins, rooms, "arrows.yml") == [
        f"plugins/module_utils/high/b.py:2: {HIGH} imports {LOW}, which arrows.yml does not allow"
    ]
    assert faults(plugins, {**rooms, HIGH: Room("", frozenset({LOW}))}) == []


def test_arrow_that_nobody_uses_is_named(tmp_path: Path) -> None:
    plugins = _plugins(tmp_path, module_utils__low__a="", module_utils__high__b="")
    rooms = {LOW: Room("", NOWHERE), HIGH: Room("", frozenset({LOW}))}
    assert faults(plugins, rooms, "arrows.yml") == [f"arrows.yml: {HIGH} may import {LOW}, but no longer does"]


def test_cycle_is_named_though_every_arrow_is_allowed(tmp_path: Path) -> None:
    plugins = _plugins(tmp_path, module_utils__low__a="from ..high import b\n", module_utils__high__b="")
    rooms = {LOW: Room("", frozenset({HIGH})), HIGH: Room("", NOWHERE, frozenset({LOW}))}
    (fault,) = faults(plugins, rooms)
    assert fault.startswith(f"{HIGH} -> {LOW} -> {HIGH} is a cycle")
    assert "plugins/module_utils/low/a.py:1" in fault


def test_room_without_a_line_and_line_without_a_room_are_named(tmp_path: Path) -> None:
    plugins = _plugins(tmp_path, module_utils__low__a="", action__b="from ..module_utils.low import a\n")
    assert faults(plugins, {HIGH: Room("", NOWHERE), "action": Room("", frozenset({LOW}))}, "arrows.yml") == [
        f"arrows.yml: {LOW} has no line, expected what it holds and imports",
        f"arrows.yml: {HIGH} has a line, but no file is in it",
    ]


def test_import_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    plugins = _plugins(tmp_path, module_utils__high__b="from ..gone import X\n")
    with pytest.raises(ValueError, match=r"module_utils\.gone: there is no such module"):
        faults(plugins, {HIGH: Room("", NOWHERE)})


@pytest.mark.parametrize(
    ("arrows", "cycle", "count"),
    [
        ([("a", "b"), ("b", "c"), ("a", "c")], [], 0),
        ([("a", "b"), ("b", "a"), ("b", "c")], ["a", "b", "a"], 1),
        ([("a", "b"), ("b", "c"), ("c", "b"), ("d", "e"), ("e", "d")], ["b", "c", "b"], 2),
    ],
)
def test_cycles_are_found(arrows: list[tuple[str, str]], cycle: list[str], count: int) -> None:
    assert (cycle_in(arrows), cycles(arrows)) == (cycle, count)


def test_page_shows_the_arrows() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "PYTHONPATH=. python -m tests.architecture.table writes the page"
