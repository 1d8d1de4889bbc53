"""What the tests of the node program share."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build

from tests.contracts.table import refuse_unknown

# Its ``run`` takes whatever it is given, in tests too; the fake hosts ask for it.
RUNS_ANYTHING = "host.py"


@pytest.fixture(scope="session", autouse=True)
def known_programs() -> Iterator[None]:
    """Let Muster start no program in a way that no real one was asked about (tests/contracts)."""

    class Popen(subprocess.Popen[Any]):
        def __init__(self, args: Any, *more: Any, **options: Any) -> None:
            frame = sys._getframe(1)
            while frame.f_back and frame.f_code.co_filename == subprocess.__file__:
                frame = frame.f_back
            place = Path(frame.f_code.co_filename)
            if "plugins" in place.parts and "muster" in str(place) and place.name != RUNS_ANYTHING:
                refuse_unknown(args)
            super().__init__(args, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Popen)
        yield


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
