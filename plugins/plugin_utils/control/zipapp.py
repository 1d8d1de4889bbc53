"""The program that nodes run, as one file: part of ``module_utils`` in a zip archive that Python starts.

It holds exactly what its entry point reaches. The same tree gives the same bytes wherever and whenever it is built:
entries are sorted, carry one fixed time and mode, and are stored, since compressors differ from version to version.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

# Not /usr/bin/env: hooks and units start this file as root, and PATH must not choose the interpreter.
SHEBANG = b"#!/usr/bin/python3\n"
PACKAGE = "muster"
COLLECTION = Path(__file__).resolve().parents[3]

ENTRY = "cli.py"
# The packages whose modules the registry imports by name.
REGISTERED = ("probes", "checks", "stress")
_MODULE = re.compile(r"(\.\.)?[a-z_]+\.[a-z_0-9]+(:[a-z_]+)?")

# The earliest time that the format can tell.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_MAIN = '''"""Starts the program."""

import sys

if sys.version_info < (3, 9):
    sys.exit("muster: found Python " + sys.version.split()[0] + ", expected 3.9 or later")

from muster.cli import main

sys.exit(main(version="{version}"))
'''


class ZipappError(MusterError, RuntimeError):
    """A tree that does not make a program; says what is missing."""


def build(collection: Path = COLLECTION) -> bytes:
    """Return the archive made of a collection's ``plugins/module_utils``."""
    sources = collection / "plugins" / "module_utils"
    if not (sources / ENTRY).is_file():
        raise ZipappError(f"{sources}: no {ENTRY}, expected the program's start there")
    files = {path.relative_to(sources).as_posix(): path.read_bytes() for path in sorted(reached(sources))}
    packages = {"", *(name.rsplit("/", 1)[0] + "/" for name in files if "/" in name)}
    entries = {f"{PACKAGE}/{name}": content for name, content in files.items()}
    entries.update({f"{PACKAGE}/{package}__init__.py": b"" for package in packages})
    entries["__main__.py"] = _MAIN.format(version=version_of(collection)).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, _TIME)
            # Unix, whatever the machine that builds.
            info.create_system = 3
            info.external_attr = _MODE
            file.writestr(info, entries[name])
    return SHEBANG + archive.getvalue()


def reached(sources: Path) -> set[Path]:
    """Return the files that the program's entry point reaches, by imports at any depth or by name.

    Probes, checks and stresses are imported by name, and programs of their own are read by theirs: a text that is a
    module of the tree, as ``:main`` of the table of subcommands, counts as an import. Raises ZipappError for a relative
    import that leads nowhere.
    """
    found: set[Path] = set()
    waiting = [sources / ENTRY, *(path for package in REGISTERED for path in (sources / package).glob("*.py"))]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _named_in(path, sources)
    return found


def _named_in(path: Path, sources: Path) -> list[Path]:
    """Return the files of the tree that one of its files imports or names."""
    named: list[Path] = []
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.ImportFrom) and node.level:
            place = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            modules = [each for each in (place / alias.name for alias in node.names) if _file(each).is_file()]
            if not modules and not _file(place).is_file():
                raise ZipappError(f"{path}: imports {place.relative_to(sources)}, which is not there")
            named += map(_file, modules or [place])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            target = _file(sources.joinpath(*node.value.lstrip(".").partition(":")[0].split(".")))
            named += [target] if target.is_file() else []
    return named


def _file(module: Path) -> Path:
    return module.with_name(f"{module.name}.py")


def digest_of(collection: Path = COLLECTION) -> str:
    """Return a digest of all that an archive of the collection may be made of; the same one, the same archive."""
    sources = collection / "plugins" / "module_utils"
    digest = hashlib.sha256(f"{version_of(collection)}\n{_MAIN}".encode())
    for path in sorted(sources.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@functools.cache
def program_digest() -> str:
    """Return the SHA-256 of the program that this collection makes, by which nodes tell what judged; half a second."""
    return hashlib.sha256(build()).hexdigest()


def version_of(collection: Path = COLLECTION) -> str:
    """Return the collection's version from galaxy.yml, or from MANIFEST.json where it was installed from an archive."""
    manifest = collection / "MANIFEST.json"
    if manifest.exists():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
    declared = collection / "galaxy.yml"
    match = re.search(r"^version:\s*([\w.+-]+)\s*$", declared.read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        raise ZipappError(f"{declared}: no version, expected a line such as 'version: 1.2.3'")
    return match.group(1)
