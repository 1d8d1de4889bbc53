"""``muster version``: what is installed."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import version_of

from .dispatch import Answer

# Of what Muster runs on: a report of a fault is of little use without them.
LIBRARIES = ("ansible-core", "jinja2", "numpy", "paramiko", "pyyaml", "sqlalchemy")


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(_options: argparse.Namespace) -> Answer:
    """Return the versions of Muster, Python and the libraries; a library that is missing is named so."""
    versions = {
        "muster": version_of(),
        "python": platform.python_version(),
        **{name: _installed(name) for name in LIBRARIES},
    }
    text = "\n".join(f"{name:13} {version or 'not installed'}" for name, version in versions.items())
    return Answer(text, {"versions": versions})


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
