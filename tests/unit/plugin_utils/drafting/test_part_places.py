"""Where GPUs and rails lie, by each of the three ways in which it can be told, and when it cannot."""

from __future__ import annotations

import re

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.part_places import Places, places_of
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.probe_values import ProbeValues

from .hosts import MANAGERS, changed, collected, healthy_outputs, hgx_b200_outputs, xe9680_outputs

NICS = ("1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc")


def placed(outputs: dict[str, Output], rails: list[str] | None = None) -> Places:
    return places_of(ProbeValues(collected(outputs)), rails)


def buses(places: Places) -> list[str]:
    return [address.split(":")[1] for address in places.rails]


def test_rails_are_the_nics_below_the_gpus_switches() -> None:
    places = placed(xe9680_outputs())
    # The ConnectX-6 Dx that share two of the switches are no rails.
    assert buses(places) == list(NICS)
    assert [(gpu.numa_node, gpu.rail) for gpu in places.gpus] == [(index // 4, index) for index in range(8)]


def test_rails_are_told_by_nvidia_smi_where_there_are_no_bridges() -> None:
    outputs = {name: output for name, output in healthy_outputs().items() if name != "lspci"}
    places = placed(outputs)
    assert buses(places) == list(NICS)
    assert [gpu.rail for gpu in places.gpus] == list(range(8))


def test_as_many_nics_of_one_kind_as_gpus_are_rails_without_neighbours() -> None:
    outputs = {name: output for name, output in healthy_outputs().items() if name != "topology"}
    places = placed(outputs)
    assert buses(places) == list(NICS)
    assert {gpu.rail for gpu in places.gpus} == {None}


@pytest.mark.parametrize("without", ["", "topology", "lspci"])
def test_nics_that_manage_nvswitches_are_no_rails(without: str) -> None:
    outputs = {name: output for name, output in hgx_b200_outputs().items() if name != without}
    assert buses(placed(outputs)) == list(NICS)


def test_nics_that_manage_nvswitches_count_as_any_where_nobody_tells_them() -> None:
    outputs = {name: output for name, output in hgx_b200_outputs().items() if name not in ("topology", "nvswitch_nics")}
    ethernet = Output(outputs["infiniband"].stdout.replace("InfiniBand", "Ethernet"))
    lspci = Output(outputs["lspci"].stdout.replace("Infiniband controller", "Ethernet controller"))
    assert buses(placed(outputs)) == list(NICS)
    with pytest.raises(DraftError, match="which NICs are the rails of 8 GPUs cannot be told"):
        placed({**outputs, "infiniband": ethernet, "lspci": lspci})


def test_nic_that_manages_nvswitches_stays_none_where_it_alone_has_a_driver() -> None:
    outputs = {name: output for name, output in hgx_b200_outputs().items() if name != "topology"}
    lines = outputs["rail_names"].stdout.splitlines(keepends=True)
    alone = "".join(line for line in lines if any(address in line for address in MANAGERS))
    assert buses(placed({**outputs, "rail_names": Output(alone)})) == list(NICS)


@pytest.mark.parametrize("address", MANAGERS)
def test_named_rail_that_manages_nvswitches_is_refused(address: str) -> None:
    with pytest.raises(DraftError) as caught:
        placed(hgx_b200_outputs(), ["0000:1a:00.0", address])
    said = str(caught.value)
    assert said.startswith(f"gpu-01: rail {address} manages NVSwitches (SW_MNG in its VPD) and is no rail, NICs are ")
    assert not any(each in said.partition("NICs are ")[2] for each in MANAGERS) and "0000:dc:00.0" in said


def test_nics_of_which_nobody_knows_are_listed() -> None:
    outputs = {name: output for name, output in healthy_outputs().items() if name != "topology"}
    lines = outputs["rail_names"].stdout.splitlines(keepends=True)
    fewer = {**outputs, "rail_names": Output("".join(line for line in lines if "0000:dc" not in line))}
    with pytest.raises(DraftError) as caught:
        placed(fewer)
    said = str(caught.value)
    assert said.startswith("gpu-01: which NICs are the rails of 8 GPUs cannot be told from 0000:1a:00.0 (Mellanox ")
    assert said.endswith("name them with --rails ADDRESS,...")


def test_two_kinds_of_nics_beside_every_gpu_are_not_chosen_from() -> None:
    text = re.sub(
        "Non-Volatile memory controller: .*", "Ethernet controller: Storage", xe9680_outputs()["lspci"].stdout
    )
    outputs = {**xe9680_outputs(), "lspci": Output(text)}
    with pytest.raises(DraftError, match="which NICs are the rails of 8 GPUs cannot be told"):
        placed(outputs)


def test_slow_rail_stays_one_of_its_kind() -> None:
    outputs = healthy_outputs()
    text = outputs["infiniband"].stdout.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1)
    assert buses(placed({**outputs, "infiniband": Output(text)})) == list(NICS)


def test_named_rails_win_in_their_order() -> None:
    order = [f"0000:{bus}:00.0" for bus in reversed(NICS)]
    places = placed(xe9680_outputs(), order)
    assert list(places.rails) == order
    assert [gpu.rail for gpu in places.gpus] == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("rails", "expected"),
    [
        (["mlx5_0"], "rail 'mlx5_0', expected a PCI address"),
        (["0000:1a:00.0", "0000:1a:00.0"], "rail 0000:1a:00.0 is named twice"),
        (["0000:ee:00.0"], "rail 0000:ee:00.0 is no device that lspci lists, NICs are 0000:1a:00.0"),
    ],
)
def test_named_rail_that_is_none_is_refused(rails: list[str], expected: str) -> None:
    with pytest.raises(DraftError, match=expected):
        placed(healthy_outputs(), rails)


def test_host_without_nic_has_no_rails() -> None:
    text = "".join(re.findall(r"(?ms)^0000:\S+ (?:PCI bridge|3D).*?\n\n", healthy_outputs()["lspci"].stdout))
    outputs = {**healthy_outputs(), "lspci": Output(text), "rail_names": Output("")}
    assert placed(outputs).rails == ()


def test_gpu_that_only_lspci_sees_makes_no_good_host() -> None:
    outputs = healthy_outputs()
    (block,) = re.findall(r"(?ms)^0000:8c:00\.0 3D.*?\n\n", outputs["lspci"].stdout)
    with pytest.raises(DraftError, match=r"nvidia-smi lists GPUs at .*, lspci at .*; expected the same from both"):
        placed(changed(outputs, "lspci", (block, "")))


def test_lost_gpu_makes_no_good_host() -> None:
    lost = "Unable to determine the device handle for GPU0000:91:00.0: GPU is lost.  Reboot the system\n"
    with pytest.raises(DraftError, match=r"^gpu-01: nvidia-smi has lost GPU 0000:91:00.0"):
        placed({"nvidia_smi": Output(lost, rc=15)})


def test_lost_gpu_that_is_listed_makes_no_good_host() -> None:
    outputs = healthy_outputs()
    others, temperature, last = outputs["nvidia_smi"].stdout.rpartition("<gpu_temp>")
    outputs["nvidia_smi"] = Output(f"{others}{temperature}GPU is lost{last[last.index('</gpu_temp>') :]}")
    with pytest.raises(
        DraftError, match=r"^gpu-01: nvidia-smi has lost GPU 0000:8c:00.0, expected a host that is good"
    ):
        placed(outputs)


@pytest.mark.parametrize("others", [{}, healthy_outputs()])
def test_gpu_at_which_nvidia_smi_stops_is_not_taken_for_the_only_one(others: dict[str, Output]) -> None:
    line = (
        "Unable to determine the device handle for GPU0000:8C:00.0: A GPU reset must occur before this GPU can be used"
    )
    with pytest.raises(DraftError, match=r"^gpu-01: nvidia-smi does not describe every GPU"):
        placed({**others, "nvidia_smi": Output(f"{line} again.\n\n.\n", rc=15)})


def test_topology_that_leaves_a_gpu_out_places_none() -> None:
    outputs = healthy_outputs()
    # GPU5 and GPU6 called GPU6 and GPU7, and so on: eight rows, whose numbers are not those of eight GPUs.
    text = re.sub(r"GPU([5-7])", lambda match: f"GPU{int(match[1]) + 1}", outputs["topology"].stdout)
    outputs = {**outputs, "topology": Output(text)}
    assert {gpu.numa_node for gpu in placed({**outputs, "lspci": Output("")}).gpus} == {None}


def test_host_without_gpu_is_refused() -> None:
    with pytest.raises(DraftError, match=r"^gpu-01: no GPU is seen by lspci, and nvidia_smi was not run"):
        placed({})
