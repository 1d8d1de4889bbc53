"""What contradicts the backend of the RoCE ports, or is missing to install DOCA-OFED, and the kernel below it."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.readiness.rdma_software import (
    RdmaSoftware,
    lacks,
    wrong_source,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.fake_host import FakeHost
from tests.typed import RAILS_FABRIC, typed

DGX = expectations_of("dgx_h100", {}, "test")
DISTRIBUTION = RdmaSoftware("", "distribution", None, "")


@pytest.mark.parametrize("backend", ["doca", "inbox", ""])
def test_doca_needs_its_mirror_and_every_version(backend: str) -> None:
    assert wrong_source(RdmaSoftware(backend, "doca", ["doca-ofed=3.1.0"], "https://mirror.example.com")) == []
    one, two = wrong_source(RdmaSoftware(backend, "doca", ["doca-ofed=3.1.0", "perftest"], ""))
    assert one.startswith("rdma_repository: nothing") and two.startswith("rdma_packages: perftest, expected")
    assert ("fabric.backend" in one) is bool(backend)


def test_packages_that_the_inventory_does_not_name_have_no_version() -> None:
    (told,) = wrong_source(RdmaSoftware("doca", "doca", None, "https://mirror.example.com"))
    assert told == "rdma_packages: none declared, expected NAME=VERSION of each, such as doca-ofed=3.1.0-091000"


def test_backend_doca_needs_doca_unless_the_image_has_it() -> None:
    assert wrong_source(RdmaSoftware("inbox", "distribution", ["perftest"], "")) == []
    assert wrong_source(DISTRIBUTION) == []
    (told,) = wrong_source(RdmaSoftware("doca", "distribution", ["perftest"], ""))
    assert told.startswith("rdma_source: distribution, expected doca, as fabric.backend is doca")
    assert wrong_source(RdmaSoftware("doca", "distribution", [], "")) == []
    assert wrong_source(RdmaSoftware("doca", "doca", [], "")) == []


@pytest.mark.parametrize(
    ("release", "over", "lacking"),
    [
        ("5.10.0-28-amd64", {"fabric": RAILS_FABRIC}, ["rdma_peer_memory dmabuf: DMA-BUF needs Linux 5.12"]),
        ("6.1.0-18-amd64", {"fabric": RAILS_FABRIC}, []),
        # A host without GPUs reaches no memory of theirs, and one without a fabric nothing at all.
        ("5.10.0-28-amd64", {"fabric": RAILS_FABRIC, "gpu": None, "nvlink": None, "affinity": None}, []),
        ("5.10.0-28-amd64", {}, []),
    ],
)
def test_kernel_is_asked_where_nics_reach_gpu_memory(release: str, over: dict[str, object], lacking: list[str]) -> None:
    here = FakeHost({"uname -r": Output(f"{release}\n")})
    found = lacks(here, typed({**DGX, **over}), DISTRIBUTION)
    assert [line[: len(begin)] for line, begin in zip(found, lacking, strict=True)] == lacking


def test_source_of_a_fabric_that_is_none_is_not_asked() -> None:
    assert lacks(FakeHost({}), typed(DGX), RdmaSoftware("doca", "distribution", None, "")) == []
