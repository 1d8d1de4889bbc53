"""The program that nodes run, as one file: ``module_utils`` in a zip archive that Python starts.

The same tree gives the same bytes wherever and whenever it is built: entries are sorted, carry one fixed time and mode,
and are stored, since compressors differ from version to version.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

# Not /usr/bin/env: hooks and units start this file as root, and PATH must not choose the interpreter.
SHEBANG = b"#!/usr/bin/python3\n"
PACKAGE = "muster"
COLLECTION = Path(__file__).resolve().parents[2]

# The earliest time that the format can tell.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_MAIN = '''"""Starts the program."""

import sys

from muster.cli import main

sys.exit(main(version="{version}"))
'''


class ZipappError(RuntimeError):
    """A tree that does not make a program; says what is missing."""


def build(collection: Path = COLLECTION) -> bytes:
    """Return the archive made of a collection's ``plugins/module_utils``."""
    sources = collection / "plugins" / "module_utils"
    files = {path.relative_to(sources).as_posix(): path.read_bytes() for path in sources.rglob("*.py")}
    if "cli.py" not in files:
        raise ZipappError(f"{sources}: no cli.py, expected the program's start there")
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


def version_of(collection: Path) -> str:
    """Return the collection's version from galaxy.yml, or from MANIFEST.json where it was installed from an archive."""
    manifest = collection / "MANIFEST.json"
    if manifest.exists():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
    declared = collection / "galaxy.yml"
    match = re.search(r"^version:\s*([\w.+-]+)\s*$", declared.read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        raise ZipappError(f"{declared}: no version, expected a line such as 'version: 1.2.3'")
    return match.group(1)
