"""What the tests of the node program share."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build


@pytest.fixture(scope="session", autouse=True)
def remembered_here(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give each worker a place of its own for what a control machine remembers of ledgers."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def node_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that nodes run, unpacked: Python keeps what it has compiled of a directory, of an archive nothing.

    test_cli.py runs the archive itself.
    """
    place = tmp_path_factory.mktemp("program")
    zipfile.ZipFile(io.BytesIO(build())).extractall(place)
    return place
