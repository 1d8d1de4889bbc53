"""A lab host has what its class needs, as a scenario makes it and before any role has run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lab
import lab_files
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.readiness.host_readiness import Declared, lacking
from ansible_collections.muster.cluster.plugins.module_utils.readiness.rdma_software import RdmaSoftware
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of
from lab_state import declared

from tests.fake_host import FakeHost
from tests.typed import RAILS_FABRIC, typed

# PyTorch's place is made with the lab's image.
KERNEL = FakeHost({"uname -r": Output("6.1.0-18-amd64\n"), "/opt/muster/pytorch/bin/python3": Output()})
DISTRIBUTION = RdmaSoftware("", "distribution", None, "")


def lacks(place: Path, **faults: Any) -> list[str]:
    state = declared("gpu-01", None, faults)
    lab.install_tools(place, state)
    lab_files.write_files(place, state)
    expect = typed({**expectations_of("lab_h100", {}, "test"), "fabric": RAILS_FABRIC})
    host = LocalHost(f"{place}/bin:/usr/bin:/bin", str(place / "root"))
    return lacking(host, KERNEL, expect, Declared(range(8), [], DISTRIBUTION, {}))


def test_healthy_host_lacks_nothing(tmp_path: Path) -> None:
    assert lacks(tmp_path) == []


def test_missing_gpus_and_nics_are_for_burn_in(tmp_path: Path) -> None:
    assert lacks(tmp_path, gpus_missing=["SXM1"], gpus_lost=["SXM2"], nics_missing=["rail0"], nics_down=["rail1"]) == []


def test_perftest_without_cuda_is_told(tmp_path: Path) -> None:
    (told,) = lacks(tmp_path, perftest_lacks=["--use_cuda", "--use_cuda_dmabuf"])
    assert told.startswith("perftest: ib_write_bw was built without CUDA")
