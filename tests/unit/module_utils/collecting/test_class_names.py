"""What was collected without a class is judged under the names of one: the report on a NIC stays that NIC's."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected, Taken
from ansible_collections.muster.cluster.plugins.module_utils.collecting.class_names import outputs_for
from ansible_collections.muster.cluster.plugins.module_utils.collecting.collect import collected_probes
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined, listed, split
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.pytorch import PROVIDED
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations

from tests.fuzz.cases import expect as healthy_expect
from tests.fuzz.sick import healthy
from tests.typed import typed

# As a host with two further NICs has them: rail1 of the class is the third of it.
ADDRESSES = ["0000:1a:00.0", "0000:2a:00.0", "0000:3c:00.0", "0000:9c:00.0"]
TAKEN = tuple(Taken("mlxlink", f"mlxlink -d {address} -m -c --json", 9, 0) for address in reversed(ADDRESSES))


def said(names: list[str]) -> dict[str, Output]:
    return {name: Output(f"of {name}\n") for name in names}


def expect(**sections: dict[str, Any]) -> Expectations:
    data = healthy_expect()
    return typed({**data, **{name: {**data[name], **section} for name, section in sections.items()}})


def rails(*addresses: str) -> Expectations:
    return expect(nic={"rails": [{"rail": rail, "address": address} for rail, address in enumerate(addresses)]})


def collected(taken: tuple[Taken, ...] = TAKEN, **outputs: Output) -> Collected:
    return Collected("gpu-01", 0.0, outputs, taken)


@pytest.mark.parametrize("together", [joined, listed])
def test_report_on_a_nic_has_the_name_of_the_rail_at_its_address(together: Any) -> None:
    host = collected(mlxlink=together(said(["rail0", "rail1", "rail2", "rail3"])))
    outputs = outputs_for(host, rails(ADDRESSES[3], ADDRESSES[0], "0000:ff:00.0", ADDRESSES[2]))
    texts = {name: each.stdout for name, each in split(outputs["mlxlink"].stdout).items()}
    assert texts == {"rail0": "of rail3\n", "rail1": "of rail0\n", "rail3": "of rail2\n"}


def test_same_rails_leave_the_output_as_it_was() -> None:
    output = joined({**said(["rail0", "rail1", "rail2"]), "rail3": Output("", "no such device", 1)})
    assert outputs_for(collected(mlxlink=output), rails(*ADDRESSES))["mlxlink"] == output


def test_report_on_an_unknown_nic_is_unreadable() -> None:
    host = collected(TAKEN[1:], mlxlink=joined(said(["rail0", "rail1", "rail2", "rail3"])))
    output = outputs_for(host, rails(*ADDRESSES))["mlxlink"]
    assert (output.rc, output.stdout) == (None, "") and "4 reports on 3 parts" in output.error


def test_tool_that_was_not_there_is_still_not_there() -> None:
    output = Output(rc=None, error="mlxlink: not found")
    assert outputs_for(collected((), mlxlink=output), rails(*ADDRESSES))["mlxlink"] == output


def test_report_on_a_drive_has_the_name_of_the_part_at_its_address() -> None:
    drives = Output(healthy("nvme_sysfs"))
    host = collected((), nvme_sysfs=drives, smartctl=joined(said([f"nvme {number}" for number in range(1, 9)])))
    addresses = ["0000:3a:00.0", "0000:1a:00.0"]
    by_address = expect(nvme={"count": 2, "addresses": addresses})
    reports = split(outputs_for(host, by_address)["smartctl"].stdout)
    assert {name: each.stdout for name, each in reports.items()} == {
        "nvme 0000:3a:00.0": "of nvme 3\n",
        "nvme 0000:1a:00.0": "of nvme 1\n",
    }
    assert outputs_for(host, expect(nvme={"count": 8, "addresses": None}))["smartctl"] == host.outputs["smartctl"]
    alone = collected((), smartctl=host.outputs["smartctl"])
    assert outputs_for(alone, by_address)["smartctl"].rc is None


def test_other_outputs_stay_as_they_are_and_what_is_missing_says_so() -> None:
    """Checks are asked by what outputs there are: one that was left out would pass by nobody's asking."""
    outputs = outputs_for(collected(uname=Output("Linux\n")), rails(*ADDRESSES))
    assert {*outputs} == {*collected_probes()}
    assert outputs.pop("uname") == Output("Linux\n")
    assert all(output.rc is None and output.error.endswith("was not collected") for output in outputs.values())


@pytest.mark.parametrize("python", [PROVIDED, "/opt/site/bin/python3"])
def test_pytorch_of_another_place_than_the_class_names_was_not_collected(python: str) -> None:
    output = Output(healthy("pytorch"))
    found = outputs_for(collected((), pytorch=output), expect(pytorch={"python": python}))["pytorch"]
    assert found == (output if python == PROVIDED else Output(rc=None, error="pytorch was not collected"))
