"""Versions of tools that are known to fail sound parts, or to pass any part."""

import re

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.judging.known_bad import KNOWN_BAD, known_bad, known_pass

BUSY = (
    "The memory copy utilization for the GPU: 2 is greater than 10%. "
    "This may affect the results of the nvbandwidth test."
)


def known(tool="dcgmi", version="4.5.0", test="nvbandwidth", said=(BUSY,)):
    return known_bad(tool, version, test, said)


# The source of DCGM 4.3.1 spells it so.
@pytest.mark.parametrize("said", [(BUSY,), (BUSY.replace("utilization", "utilitization"),), (BUSY, BUSY), (), ("",)])
def test_known_failure_names_version_test_source_and_what_to_install(said):
    why = known(said=said)
    assert why.startswith("known of dcgmi 4.5.0: nvbandwidth ")
    assert "NVIDIA/DCGM issue 272" in why and "install 4.5.1" in why


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "nvbandwidth"},
        {"version": "4.5.1"},
        {"version": "4.5"},
        {"version": ""},
        {"version": None},
        {"test": "memory_bandwidth"},
        {"said": ("Detected XID 79 for GPU 2",)},
        {"said": (BUSY, "Detected XID 79 for GPU 2")},
    ],
)
def test_nothing_else_is_known(other):
    assert known(**other) == ""


@pytest.mark.parametrize("entry", KNOWN_BAD, ids=lambda entry: f"{entry.tool} {entry.test}")
def test_entry_is_whole(entry):
    assert all(value for name, value in vars(entry).items() if name != "says") and all(entry.versions)
    assert entry.fixed not in entry.versions
    # A pattern of any text would excuse every failure.
    assert not entry.says or (not re.search(entry.says, "") and not re.search(entry.says, "Detected XID 79 for GPU 2"))


def test_known_pass_is_told_of_the_versions_that_do_not_test_and_excuses_no_failure():
    assert "pull request 7" in known_pass("nvbandwidth", "0.3", "data")
    assert known_pass("nvbandwidth", "0.4", "data") == known_pass("nvbandwidth", None, "data") == ""
    assert known_bad("nvbandwidth", "0.3", "data", ["wrong data"]) == ""


def test_nvlinks_that_are_not_used_are_known_of_one_release_of_dcgm():
    down = ("GPU 3's NvLink link 5 is currently down",)
    assert "install 3.1.6" in known(version="3.1.3", test="pcie", said=down)
    assert known(version="3.1.6", test="pcie", said=down) == ""
