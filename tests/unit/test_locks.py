"""The locks hold what pyproject.toml asks for, by hash, and the tests run with it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(path.name for path in (ROOT / "locks").iterdir())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUN, GROUPS = PROJECT["project"]["dependencies"], PROJECT["dependency-groups"]
ASKED = {
    "muster.txt": RUN,
    "dev.txt": RUN + GROUPS["dev"],
    "lab.txt": GROUPS["lab"],
    "lab_cpu.txt": GROUPS["lab"],
}


def entries(lock: str) -> list[str]:
    """Return the entries of a lock, each in one line."""
    text = (ROOT / "locks" / lock).read_text(encoding="utf-8")
    return [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]


def locked(lock: str) -> dict[str, str]:
    """Return the version of each package that holds here."""
    requirements = [Requirement(entry.partition(" --hash")[0]) for entry in entries(lock)]
    return {
        canonicalize_name(each.name): str(each.specifier).removeprefix("==")
        for each in requirements
        if each.marker is None or each.marker.evaluate()
    }


def test_locks_are_those_that_are_known() -> None:
    assert sorted(ASKED) == LOCKS


@pytest.mark.parametrize("lock", LOCKS)
def test_entry_is_one_version_by_hash_and_names_no_place(lock: str) -> None:
    assert len(entries(lock)) > 10
    wrong = [
        entry
        for entry in entries(lock)
        if not re.fullmatch(r"[a-z0-9-]+==[\w.+]+( ; [^@]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", entry)
    ]
    assert wrong == []


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_holds_what_is_asked_for(lock: str) -> None:
    versions = locked(lock)
    for asked in map(Requirement, ASKED[lock]):
        assert asked.specifier.contains(versions[canonicalize_name(asked.name)]), f"make lock: {asked}"


@pytest.mark.parametrize("lock", sorted({*LOCKS} - {"dev.txt"}))
def test_lock_agrees_with_that_of_the_tests(lock: str) -> None:
    versions, tested = locked(lock), locked("dev.txt")
    common = versions.keys() & tested.keys()
    assert {name: versions[name] for name in common} == {name: tested[name] for name in common}
    assert lock != "muster.txt" or common == versions.keys()


def test_tests_run_with_the_locked_packages() -> None:
    versions = locked("dev.txt")
    assert {name: version(name) for name in versions} == versions, "make sets up .venv"
