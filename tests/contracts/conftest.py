"""The systems whose real programs are asked."""

from __future__ import annotations

import os

import pytest

from tests.contracts import systems
from tests.contracts.gpus import Smi

# All of the table, unless a run asks for fewer.
SUITES = os.environ.get("CONTRACT_SYSTEMS", "").split() or list(systems.suites())


@pytest.fixture(scope="module", params=SUITES)
def system(request: pytest.FixtureRequest) -> systems.System:
    """An unpacked system; who asks for one means to run real programs, and is told why where none can be."""
    if why := systems.lacking():
        pytest.fail(why)
    return systems.system(request.param)


@pytest.fixture(scope="module")
def smi(system: systems.System, tmp_path_factory: pytest.TempPathFactory) -> Smi:
    """The nvidia-smi of the system."""
    return Smi(system.root, tmp_path_factory.mktemp(system.suite))
