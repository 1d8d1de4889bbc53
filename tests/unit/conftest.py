"""What the tests of the node program share."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build

# What a control machine remembers of ledgers: none of this machine's, and each worker's own.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="muster-tests-")


@pytest.fixture(scope="session")
def node_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that nodes run, unpacked: Python keeps what it has compiled of a directory, of an archive nothing.

    test_cli.py runs the archive itself.
    """
    place = tmp_path_factory.mktemp("program")
    zipfile.ZipFile(io.BytesIO(build())).extractall(place)
    return place
