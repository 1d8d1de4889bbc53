"""A class of another machine is named, a single part that is missing is not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.readiness import places

from tests.fake_host import FakeHost
from tests.typed import typed

GPUS, RAILS = ["0000:1b:00.0", "0000:ab:00.0"], ["0000:1a:00.0", "0000:3c:00.0"]
OTHER_GPUS, OTHER_RAILS = ["0000:19:00.0", "0000:db:00.0"], ["0000:18:00.0", "0000:40:00.0"]
FRONT_END = "0000:29:00.0"
SHIPPED = {
    "mine": {"gpus": GPUS, "rails": RAILS},
    "other": {"gpus": OTHER_GPUS, "rails": OTHER_RAILS},
    "half": {"gpus": OTHER_GPUS, "rails": RAILS},
}
# One of a server's own graphics, one of an NVSwitch, one of a bridge of NVIDIA's NIC.
BESIDE = {
    "0000:02:00.0": ("0x1a03", "0x030000"),
    "0000:07:00.0": ("0x10de", "0x068000"),
    "0000:17:00.0": ("0x15b3", "0x060400"),
}


@pytest.fixture
def expect(expect: dict[str, Any]) -> dict[str, Any]:
    """Return a class with two GPUs and two rails."""
    rails = [{"rail": rail, "address": address} for rail, address in enumerate(RAILS)]
    return {**expect, "class": "mine", "nic": {**expect["nic"], "rails": rails}, "affinity": None}


def host(gpus: Iterable[str], nics: Iterable[str], vendor: str = "0x15b3") -> FakeHost:
    functions = {
        **BESIDE,
        **dict.fromkeys(gpus, ("0x10de", "0x030200")),
        **dict.fromkeys(nics, (vendor, "0x020000")),
    }
    files = {}
    for address, (made_by, kind) in functions.items():
        files[f"/sys/bus/pci/devices/{address}/vendor"] = Output(f"{made_by}\n")
        files[f"/sys/bus/pci/devices/{address}/class"] = Output(f"{kind}\n")
    return FakeHost(files)


@pytest.mark.parametrize(
    ("gpus", "nics"),
    [
        (GPUS, [*RAILS, FRONT_END]),
        # One that is missing is burn-in's to name, and so are all of them.
        (GPUS[:1], RAILS[1:]),
        ([], []),
        ([*GPUS[1:], *OTHER_GPUS], [*RAILS[:1], *OTHER_RAILS]),
    ],
)
def test_class_that_fits(expect: dict[str, Any], gpus: list[str], nics: list[str]) -> None:
    assert places.lacks(host(gpus, nics), typed(expect), SHIPPED) == []


def test_class_of_another_machine_and_the_one_that_fits(expect: dict[str, Any]) -> None:
    (told,) = places.lacks(host(OTHER_GPUS, [FRONT_END, *OTHER_RAILS]), typed(expect), SHIPPED)
    assert told == (
        "class mine does not fit: found GPUs at 0000:19:00.0, 0000:db:00.0, expected at 0000:1b:00.0, 0000:ab:00.0; "
        "NICs at 0000:18:00.0, 0000:29:00.0, 0000:40:00.0, expected rails at 0000:1a:00.0, 0000:3c:00.0; "
        "class other has these places"
    )


def test_machine_of_no_shipped_class_has_to_be_declared(expect: dict[str, Any]) -> None:
    (told,) = places.lacks(host(GPUS, OTHER_RAILS), typed(expect), SHIPPED)
    assert "GPUs" not in told
    assert told.endswith("expected rails at 0000:1a:00.0, 0000:3c:00.0; declare gpu.parts and nic.rails of this host")
    (told,) = places.lacks(host(OTHER_GPUS, RAILS), typed(expect), {})
    assert "NICs" not in told and "GPUs at 0000:19:00.0" in told


def test_graphics_card_counts_as_a_gpu(expect: dict[str, Any]) -> None:
    found = host([], RAILS)
    found.outputs["/sys/bus/pci/devices/0000:65:00.0/vendor"] = Output("0x10de\n")
    found.outputs["/sys/bus/pci/devices/0000:65:00.0/class"] = Output("0x030000\n")
    assert "found GPUs at 0000:65:00.0" in places.lacks(found, typed(expect), {})[0]


def test_rails_may_be_of_another_vendor(expect: dict[str, Any]) -> None:
    found = host(GPUS, RAILS, vendor="0x14e4")
    found.outputs.update(host([], [FRONT_END]).outputs)
    assert places.lacks(found, typed(expect), SHIPPED) == []


def test_class_without_gpus_or_rails_is_not_asked_for_them(expect: dict[str, Any]) -> None:
    bare = {**expect, "gpu": None, "nic": None, "rdma": None, "gpu_stack": None}
    assert places.lacks(host(OTHER_GPUS, OTHER_RAILS), typed(bare), SHIPPED) == []
