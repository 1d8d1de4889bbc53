"""NCCL too old for the fabric's QoS is found before a job runs with it."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import nccl_version
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_version import numbers_of, older
from ansible_collections.muster.cluster.plugins.module_utils.probes.nccl import Nccl

from tests.typed import RAILS_FABRIC, typed

FABRIC = {**RAILS_FABRIC, "nccl_least": "2.22.3"}
STACK = {"packages": [{"name": "libnccl2", "version": "2.26.2-1+cuda12.8"}], "services": []}


@pytest.mark.parametrize(
    ("library", "stack", "verdict", "said"),
    [
        ("2.22.3", None, "pass", ""),
        ("2.26.2", STACK, "pass", ""),
        ("2.21.5", None, "fail", "NCCL 2.21.5 does not know NCCL_IB_FIFO_TC"),
        ("2.21.5+2.26.2", STACK, "fail", "NCCL 2.21.5 does not"),
        ("2", None, "incomplete", "the version of libnccl.so.2 is not in its name"),
        ("none", STACK, "incomplete", "no libnccl.so is found, though the class declares libnccl2"),
        ("none", None, "pass", "no NCCL is installed but what programs bring"),
    ],
)
def test_every_installed_library_is_new_enough(expect, library, stack, verdict, said):
    expect = {**expect, "fabric": FABRIC, "gpu_stack": stack, "gpu": {**expect["gpu"], "driver": "570.86.15"}}
    (finding,) = nccl_version.decide({"nccl": Nccl(library, "none")}, typed(expect))
    assert (finding.verdict, finding.subject) == (verdict, *nccl_version.subjects(typed(expect)))
    assert said in finding.reason


def test_owed_only_where_the_fabric_asks_and_collectives_use_nccl(expect):
    gloo = {**expect["collective"], "backend": "gloo"}
    assert nccl_version.subjects(typed({**expect, "fabric": FABRIC})) == ["nccl"]
    assert nccl_version.subjects(typed({**expect, "fabric": FABRIC, "collective": gloo})) == []
    assert nccl_version.subjects(typed({**expect, "fabric": {**FABRIC, "nccl_least": None}})) == []
    assert nccl_version.subjects(typed({**expect, "fabric": None})) == []


@pytest.mark.parametrize(
    ("version", "is_older"),
    [
        ("2.22.2", True),
        ("2.22.3", False),
        ("2.22.3-1+cuda12.6", False),
        ("2.9.9", True),
        ("2.100.0", False),
        ("2", True),
    ],
)
def test_versions_are_compared_by_number(version, is_older):
    assert older(version, "2.22.3") is is_older


@pytest.mark.parametrize("text", ["", "2", "2.22", "2.22.3.1", "v2.22.3", "2.22.3 or so"])
def test_what_is_no_version_is_none(text):
    assert numbers_of(text) is None
