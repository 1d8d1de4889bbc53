import gzip
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import required
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import hardware_class
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    HARDWARE,
    expectations_of,
    placed_classes,
    shipped_classes,
    shipped_values,
)

from tests.placed import PLACED, placed
from tests.recorded.judged import RECORDED


def expect(name: str, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a class of a fleet that declares where the parts of a board lie."""
    own = overrides or {}
    return expectations_of(name, placed(own if name in own or name not in PLACED else {**own, name: {}}), "x.fleet.yml")


@pytest.mark.parametrize("name", shipped_classes())
def test_shipped_class_is_complete_and_plain(name: str) -> None:
    expectations = expect(name)
    assert expectations["class"] == name
    assert set(expectations) == {each.name.rstrip("_") for each in fields(Expectations)}
    assert not re.search(r"\bsource:", yaml.safe_dump(expectations))


@pytest.mark.parametrize("name", shipped_classes())
def test_shipped_class_suits_the_checks_on_the_nodes(name: str) -> None:
    read_expectations(expect(name))


BOARDS = ("grand_teton_h100", "hgx_b200", "hgx_h100", "hgx_h200")


def test_shipped_class_says_where_its_parts_lie_or_is_that_of_a_board() -> None:
    assert placed_classes() == ("dgx_h100", "dgx_h200", "xe9680_h100")
    assert {*shipped_classes()} == {*placed_classes(), *BOARDS, "gb200_nvl72", "lab_h100"}
    for name in (*placed_classes(), "lab_h100"):
        read_expectations(expectations_of(name, {}, "test"))


@pytest.mark.parametrize("name", BOARDS)
def test_board_leaves_places_and_cores_to_the_vendor_of_the_host(name: str) -> None:
    board = shipped_values(name)
    assert (board["gpu"]["parts"], board["nic"]["rails"], board["cpu"]["cores"]) == (None, None, None)
    assert board["gpu"]["count"] == 8


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize(
    ("declared", "key", "what"),
    [
        ({}, "gpu.parts", "slot and PCI address of each GPU"),
        ({"gpu": PLACED["hgx_h100"]["gpu"]}, "nic.rails", "number and PCI address of each rail"),
        ({"gpu": None}, "nic.rails", "number and PCI address of each rail"),
    ],
)
def test_board_without_places_is_refused(name: str, declared: dict[str, Any], key: str, what: str) -> None:
    with pytest.raises(FleetError) as caught:
        expectations_of(name, {name: declared}, "x.fleet.yml")
    assert str(caught.value) == (
        f"x.fleet.yml: hardware_classes.{name}.{key}: found nothing, expected {what}: they differ between host vendors "
        "(dgx_h100, dgx_h200 and xe9680_h100 have theirs; docs/fleet.md says how to read them)"
    )


def test_tray_says_where_its_gpus_lie_and_not_its_nics() -> None:
    with pytest.raises(FleetError, match=r"hardware_classes\.gb200_nvl72\.nic\.rails: found nothing, expected number"):
        expectations_of("gb200_nvl72", {}, "x.fleet.yml")
    tray = read_expectations(expect("gb200_nvl72"))
    assert tray.gpu and tray.nvlink and tray.nvlink.domain and tray.nvlink.domain.imex
    assert [part.address for part in tray.gpu.parts] == [f"{at}:01:00.0" for at in ("0008", "0009", "0018", "0019")]
    assert (tray.collective.ranks_per_node, tray.nvlink.domain.hosts, tray.nvlink.domain.imex.nodes) == (4, 18, 18)
    assert (tray.nvlink.fabric_manager, tray.nvlink.fabric_manager_log, tray.nvlink.subnet_manager) == (
        False,
        None,
        False,
    )


def test_board_of_b200_needs_both_managers_of_its_nvswitches() -> None:
    board = read_expectations(expect("hgx_b200"))
    assert board.nvlink and (board.nvlink.fabric_manager, board.nvlink.subnet_manager) == (True, True)
    assert board.nvlink.domain is None


def owed(name: str) -> set[str]:
    return {check for check, _part in required("burn_in", read_expectations(expect(name)), ())}


def test_classes_of_blackwell_owe_what_runs_their_nvswitches() -> None:
    assert owed("hgx_b200") - owed("hgx_h100") == {"nvlink_subnet_manager"}
    assert owed("gb200_nvl72") - owed("hgx_h100") == {"nvlink_domain", "imex"}


DOCS = (HARDWARE.parents[3] / "docs" / "fleet.md").read_text()


def test_fleet_of_one_rack_in_the_documentation_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(plugin: muster\.cluster\.fleet\ncluster: west\n.*?)```", DOCS, re.DOTALL)
    file = tmp_path / "west.fleet.yml"
    file.write_text(text)
    fleet = Fleet.load(file)
    assert {node.rack for node in fleet.nodes if node.hardware_class == "gb200_nvl72"} == {"rack-1"}
    assert len([node for node in fleet.nodes if node.hardware_class == "gb200_nvl72"]) == 18
    assert (fleet.scheduler.topology, fleet.weaker["gb200_nvl72"]) == ("block", ())


def test_declarations_of_hgx_b200_in_the_documentation_are_what_a_class_takes() -> None:
    texts = re.findall(r"```yaml\n(hardware_classes:\n  hgx_b200:\n.*?)```", DOCS, re.DOTALL)
    assert len(texts) == 2
    for text in texts:
        read_expectations(expect("hgx_b200", yaml.safe_load(text)["hardware_classes"]))


# What depends on the generation of a GPU: a class of another one states each value itself, be it null. A whole section
# is here, so that a key which is added to it is too; the others name their keys.
BOUND_SECTIONS = ("gpu_stress", "telemetry", "nvbandwidth", "nvlink", "collective.floors", "collective.latency")
BOUND_KEYS = (
    *("gpu.model", "gpu.memory_mib", "gpu.power_limit_watts", "gpu.pcie_generation", "gpu.pcie_width"),
    *("gpu.pcie_replays", "gpu.idle_memory_mib", "gpu.ecc", "gpu.row_remap"),
)
# Texts and switches, which are no measure of a GPU, and what all generations have.
FREE_KEYS = (
    *("pytorch.python", "gpu_stress.device", "gpu_stress.fp8", "telemetry.directory"),
    *("nvlink.fabric", "nvlink.fabric_manager", "nvlink.fabric_manager_log", "nvlink.subnet_manager"),
    "nvlink.domain",
)
# Numbers of the section gpu that count parts.
COUNTED = ("gpu.count", "gpu.parts")
GENERATIONS = {"H100": "Hopper", "H200": "Hopper", "B200": "Blackwell", "GB200": "Blackwell"}


def generation_of(name: str) -> str:
    model = shipped_values(name)["gpu"]["model"]
    (found,) = {GENERATIONS[word] for word in model.split() if word in GENERATIONS}
    return found


def numbers_of(data: Any, key: str = "") -> Iterator[str]:
    """Yield the keys of a class whose values are numbers; a list counts as one."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from numbers_of(value, f"{key}.{name}" if key else name)
    elif isinstance(data, list | int | float) and not isinstance(data, bool):
        yield key


def states(data: Any, key: str) -> bool:
    """Return whether a class' own file says a value, or that a section around it is null."""
    for name in key.split("."):
        if not isinstance(data, dict) or name not in data:
            return False
        data = data[name]
        if data is None:
            return True
    return True


def stated_by(name: str, key: str) -> str:
    """Return the class from which a shipped class has a value: itself, or the nearest that it extends."""
    while True:
        data = yaml.safe_load((HARDWARE / f"{name}.yml").read_text())
        if states(data, key):
            return name
        name = data["extends"]


def bound(key: str) -> bool:
    inside = any(key.startswith(f"{section}.") or key == section for section in BOUND_SECTIONS)
    free = key in FREE_KEYS or key.startswith("nvlink.domain.")
    return not free and (inside or any(key == own or key.startswith(f"{own}.") for own in BOUND_KEYS))


@pytest.mark.parametrize("name", shipped_classes())
def test_no_number_of_a_gpu_is_taken_from_another_generation(name: str) -> None:
    known = {key for each in shipped_classes() for key in numbers_of(shipped_values(each)) if bound(key)}
    assert {"gpu_stress.bf16_floor_tflops", "telemetry.temperature_celsius", "nvbandwidth.floors"} <= known
    inherited = {key: stated_by(name, key) for key in sorted(known)}
    foreign = {key: each for key, each in inherited.items() if generation_of(each) != generation_of(name)}
    assert foreign == {}


def test_every_number_of_the_section_gpu_is_bound_or_counts_parts() -> None:
    known = {key for name in shipped_classes() for key in numbers_of({"gpu": shipped_values(name)["gpu"]})}
    assert [key for key in sorted(known) if not bound(key) and not key.startswith(COUNTED)] == []


def test_board_without_gpus_and_rails_needs_no_places() -> None:
    own = {"cpu": {"extends": "hgx_h100", "gpu": None, "nic": None}}
    read_expectations(expectations_of("cpu", own, "x.fleet.yml"))


def addresses(parts: list[dict[str, Any]]) -> list[str]:
    return [part["address"].removeprefix("0000:").removesuffix(":00.0") for part in parts]


def near(data: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(part["slot"], part["numa_node"], part["rail"]) for part in data["affinity"]["parts"]]


# Which NUMA node, and which rail, is beside GPU n of eight.
IN_ORDER = [(f"GPU{number}", number // 4, number) for number in range(8)]


def test_dgx_h100_has_the_places_of_its_user_guide() -> None:
    dgx = expectations_of("dgx_h100", {}, "test")
    assert addresses(dgx["gpu"]["parts"]) == ["1b", "43", "52", "61", "9d", "c3", "d1", "df"]
    # ibp24s0 and so on: the bus in decimal.
    assert [int(bus, 16) for bus in addresses(dgx["nic"]["rails"])] == [24, 64, 79, 94, 154, 192, 206, 220]
    assert [rail["rail"] for rail in dgx["nic"]["rails"]] == [*range(8)]
    assert near(dgx) == IN_ORDER
    assert (dgx["cpu"]["cores"], dgx["nvme"]["count"], dgx["nic"]["link_layer"]) == (112, 10, "InfiniBand")


def test_dgx_h200_is_a_dgx_with_the_gpus_of_the_hgx_h200() -> None:
    dgx, h100, board = (shipped_values(name) for name in ("dgx_h200", "dgx_h100", "hgx_h200"))
    assert dgx["gpu"] == {**board["gpu"], "parts": h100["gpu"]["parts"]}
    assert [dgx[section] for section in ("nvlink", "gpu_stress")] == [
        board[section] for section in ("nvlink", "gpu_stress")
    ]
    changed = {"gpu", "gpu_stress"}
    assert {name: dgx[name] for name in dgx if name not in changed} == {
        name: h100[name] for name in h100 if name not in changed
    }


LSPCI = RECORDED / "lspci" / "lspci-vvv-dell-xe9680-hgx-h100.txt.gz"


@pytest.mark.skipif(not LSPCI.exists(), reason=f"no recorded output at {LSPCI}")
def test_xe9680_h100_has_the_places_that_lspci_of_one_shows() -> None:
    xe9680 = expectations_of("xe9680_h100", {}, "test")
    text = gzip.decompress(LSPCI.read_bytes()).decode()
    blocks = {block.split(" ", 1)[0]: block for block in re.split(r"\n(?=[0-9a-f]{2}:)", text)}

    def listed(words: str) -> list[str]:
        found = [at for at, block in blocks.items() if words in block.split("\n", 1)[0]]
        return [at.removesuffix(":00.0") for at in found]

    gpus, rails = addresses(xe9680["gpu"]["parts"]), addresses(xe9680["nic"]["rails"])
    drives = [address.removeprefix("0000:").removesuffix(":00.0") for address in xe9680["nvme"]["addresses"]]
    assert gpus == listed("NVIDIA Corporation Device 2330")
    assert rails == listed("[ConnectX-7]")
    assert drives == listed("Non-Volatile memory controller")
    for bus in drives:
        assert "LnkSta:\tSpeed 16GT/s (ok), Width x4 (ok)" in blocks[f"{bus}:00.0"]
    assert (xe9680["nvme"]["link_gt_per_second"], xe9680["nvme"]["link_width"]) == (16, 4)
    # Below one switch: the same root port leads to GPU, rail and drive.
    ports = re.findall(r"Device 352a.*?secondary=(\w+), subordinate=(\w+)", text, flags=re.DOTALL)
    spans = [range(int(first, 16), int(last, 16) + 1) for first, last in ports]
    for part, gpu, rail, drive in zip(xe9680["affinity"]["parts"], gpus, rails, drives, strict=True):
        (span,) = (span for span in spans if int(gpu, 16) in span)
        assert int(rail, 16) in span and int(drive, 16) in span
        assert f"NUMA node: {part['numa_node']}\n" in blocks[f"{gpu}:00.0"]
        assert f"NUMA node: {part['numa_node']}\n" in blocks[f"{rail}:00.0"]
    assert near(xe9680) == IN_ORDER


def test_lab_class_inherits_the_gpus_and_changes_the_collective() -> None:
    lab, hgx = expectations_of("lab_h100", {}, "x.fleet.yml"), expect("hgx_h100")
    # The test host is the one that the lab's files show.
    assert lab["gpu"] == hgx["gpu"]
    assert (lab["nic"]["rails"], lab["cpu"]) == (hgx["nic"]["rails"], hgx["cpu"])
    assert (hgx["collective"]["backend"], lab["collective"]["backend"]) == ("nccl", "gloo")


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
            'c.extends: found "hgx_h1000", expected one of c, dgx_h100, dgx_h200, gb200_nvl7',
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
    (tmp_path / "bare.yml").write_text(text.replace('{value: 2, unit: sockets, source: "', '2 #"', 1))
    monkeypatch.setattr(hardware_class, "HARDWARE", tmp_path)
    with pytest.raises(
        FleetError, match=r"bare.yml: cpu.sockets: found bare number 2, expected \{value, unit, source\}"
    ):
        expectations_of("bare", {}, "x.fleet.yml")
