import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import hardware_class
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    HARDWARE,
    expectations_of,
    shipped_classes,
)


def expect(name: str, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    return expectations_of(name, overrides or {}, "x.fleet.yml")


@pytest.mark.parametrize("name", shipped_classes())
def test_shipped_class_is_complete_and_plain(name: str) -> None:
    expectations = expect(name)
    assert expectations["class"] == name
    assert set(expectations) == {each.name.rstrip("_") for each in fields(Expectations)}
    assert not re.search(r"\bsource:", yaml.safe_dump(expectations))


@pytest.mark.parametrize("name", shipped_classes())
def test_shipped_class_suits_the_checks_on_the_nodes(name: str) -> None:
    read_expectations(expect(name))


def test_hgx_h100_holds_what_a_real_host_printed() -> None:
    gpu = expect("hgx_h100")["gpu"]
    assert (gpu["count"], gpu["memory_mib"]) == (8, 81559)
    assert gpu["parts"][0] == {"slot": "SXM1", "address": "0000:0b:00.0"}


def test_lab_class_inherits_the_gpus_and_changes_the_collective() -> None:
    lab, hgx = expect("lab_h100"), expect("hgx_h100")
    assert lab["gpu"] == {**hgx["gpu"], "nvml": None}
    assert (hgx["collective"]["backend"], lab["collective"]["backend"]) == ("nccl", "gloo")
    assert [len(of["nic"]["rails"]) for of in (hgx, lab)] == [8, 8]


def test_site_overrides_one_number_and_keeps_the_others() -> None:
    ours = expect("hgx_h100", {"hgx_h100": {"memory": {"mib": 1915071}}})
    assert ours["memory"] == {**expect("hgx_h100")["memory"], "mib": 1915071}
    assert ours["gpu"] == expect("hgx_h100")["gpu"]


def test_site_override_reaches_classes_that_extend_it() -> None:
    assert expect("lab_h100", {"hgx_h100": {"memory": {"mib": 1000}}})["memory"]["mib"] == 1000


def test_site_class_extends_another_and_may_state_sources() -> None:
    clock = {"offset_ms": {"value": 5, "unit": "ms", "source": "PTP in our halls"}}
    ours = expect("ours", {"ours": {"extends": "hgx_h100", "clock": clock}})
    assert (ours["class"], ours["clock"]) == ("ours", {"offset_ms": 5, "clocksource": "tsc"})


def test_class_without_gpus_says_so() -> None:
    assert expect("cpu", {"cpu": {"extends": "hgx_h100", "gpu": None}})["gpu"] is None


ONE_PART = [{"slot": "SXM1", "address": "0000:0b:00.0"}]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"memory": {"mibs": 1}}, 'hardware_classes.c.memory: found unknown key "mibs", expected one of mib, tolera'),
        ({"memory": {"mib": "2 TB"}}, 'hardware_classes.c.memory.mib: found "2 TB", expected a whole number of at l'),
        ({"memory": {"mib": True}}, "hardware_classes.c.memory.mib: found true, expected a whole number"),
        ({"memory": {"mib": 0}}, "hardware_classes.c.memory.mib: found 0, expected a whole number of at least 1"),
        ({"memory": 5}, "hardware_classes.c.memory: found 5, expected a mapping"),
        ({"gpu": {"count": 7}}, "hardware_classes.c.gpu.parts: found 8 parts, expected 7, as gpu.count says"),
        ({"gpu": {"count": 2, "parts": ONE_PART * 2}}, 'c.gpu.parts[1].slot: found "SXM1" again, expected each one o'),
        (
            {"gpu": {"count": 1, "parts": [{"slot": "SXM1", "address": "1B:00.0"}]}},
            'hardware_classes.c.gpu.parts[0].address: found "1B:00.0", expected a PCI address such as 0000:1b:00.0',
        ),
        ({"gpu": {"count": 1, "parts": ["SXM1"]}}, 'c.gpu.parts[0]: found "SXM1", expected a mapping'),
        ({"collective": {"backend": "mpi"}}, 'c.collective.backend: found "mpi", expected one of gloo, nccl'),
        (
            {"collective": {"pairs": {"sizes_bytes": [4]}}},
            "c.collective.floors[0].size_bytes: found 268435456, expected one of collective.pairs.sizes_bytes",
        ),
        ({"collective": {"pairs": {"sizes_bytes": [6]}}}, "c.collective.pairs.sizes_bytes: found a list, expected mul"),
        ({"collective": {"driver": "mpi"}}, 'c.collective.driver: found "mpi", expected one of torch, nccl_tests'),
        ({"collective": {"cohort": {"smallest": 0.01}}}, "c.collective.cohort.smallest: found 0.01, expected at least"),
        (
            {
                "collective": {
                    "driver": "nccl_tests",
                    "latency": [{"collective": "all_reduce", "nodes_min": 2, "size_bytes": 65536, "microseconds": 60}],
                }
            },
            'c.collective.latency[0]: found "all_reduce", expected sendrecv with nccl_tests',
        ),
        ({"tools": {"root": "opt"}}, 'hardware_classes.c.tools.root: found "opt", expected an absolute path'),
        ({"memory": {"mib": {"value": 1, "units": "MiB"}}}, "c.memory.mib: found keys value, units, expected value, u"),
    ],
)
def test_bad_override_names_file_key_found_and_expected(override: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        expect("c", {"c": {"extends": "hgx_h100", **override}})
    assert str(caught.value).startswith("x.fleet.yml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"c": {"extends": "hgx_h1000"}},
            'c.extends: found "hgx_h1000", expected one of c, dgx_h100, grand_teton_h100, hg',
        ),
        ({"c": {"extends": "d"}, "d": {"extends": "c"}}, "c.extends: found c -> d -> c, expected no circle"),
        ({"c": {"memory": {"mib": 1}}}, "hardware_classes.c.gpu: found nothing, expected a mapping, or null"),
        ({"c": 5}, "hardware_classes.c: found 5, expected a mapping"),
    ],
)
def test_bad_extends_is_an_error(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(FleetError) as caught:
        expect("c", overrides)
    assert message in str(caught.value)


def test_shipped_class_cannot_be_made_to_extend_another() -> None:
    with pytest.raises(FleetError, match="expected none, as this class comes with Muster"):
        expect("hgx_h100", {"hgx_h100": {"extends": "lab_h100"}})


def test_shipped_number_without_unit_and_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (HARDWARE / "hgx_h100.yml").read_text()
    (tmp_path / "bare.yml").write_text(text.replace('{value: 96, unit: cores of all sockets, source: "', '96 #"', 1))
    monkeypatch.setattr(hardware_class, "HARDWARE", tmp_path)
    with pytest.raises(
        FleetError, match=r"bare.yml: cpu.cores: found bare number 96, expected \{value, unit, source\}"
    ):
        expect("bare")
