"""The systems whose real programs are asked."""

from __future__ import annotations

import os
from itertools import permutations

import pytest

from tests.contracts import systems
from tests.contracts.gpus import Smi

# All of the table, unless a run asks for fewer.
SUITES = os.environ.get("CONTRACT_SYSTEMS", "").split() or list(systems.suites())


def made(suite: str) -> systems.System:
    """Return an unpacked system; who asks for one means to run real programs, and is told why where none can be."""
    if why := systems.lacking():
        pytest.fail(why)
    return systems.system(suite)


@pytest.fixture(scope="module", params=SUITES)
def system(request: pytest.FixtureRequest) -> systems.System:
    """An unpacked system."""
    return made(request.param)


@pytest.fixture(params=permutations(SUITES, 2), ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[systems.System, systems.System]:
    """Two unpacked systems; each pair comes in both orders."""
    first, second = map(made, request.param)
    return first, second


@pytest.fixture(scope="module")
def smi(system: systems.System, tmp_path_factory: pytest.TempPathFactory) -> Smi:
    """The nvidia-smi of the system."""
    return Smi(system.root, tmp_path_factory.mktemp(system.suite))
