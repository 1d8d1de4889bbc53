"""NCCL's settings are the same settings whatever a boot calls the rails' devices."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_conf import CONF
from ansible_collections.muster.cluster.plugins.module_utils.probes import nccl
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.fake_host import FakeHost
from tests.placed import PLACED
from tests.typed import typed

EXPECT = typed(expectations_of("hgx_h100", PLACED, "test"))
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnccl.so.2.26.2"


def host(*devices: str, conf: str) -> FakeHost:
    """Return a host whose rails are called so, in their order."""
    assert EXPECT.nic is not None
    paths = [
        f"/sys/bus/pci/devices/{rail.address}/infiniband/{name}"
        for rail, name in zip(EXPECT.nic.rails, devices, strict=False)
    ]
    answers = {"find": Output(f"{LIBRARY}\n{CONF}\n"), "cat": Output(conf)}
    return FakeHost({**dict.fromkeys(paths, Output()), **answers})


def digest(*devices: str, conf: str) -> str:
    found = nccl.parse(nccl.collect(host(*devices, conf=conf), EXPECT))
    assert found.library == "2.26.2"
    return found.conf


def test_renamed_devices_are_the_same_settings_and_other_devices_are_not() -> None:
    tail = "NCCL_IB_TC=104\n"
    before = digest("mlx5_0", "mlx5_1", conf=f"NCCL_IB_HCA==mlx5_0,mlx5_1\n{tail}")
    assert digest("rocep26s0", "rocep60s0", conf=f"NCCL_IB_HCA==rocep26s0,rocep60s0\n{tail}") == before
    # With a card more that is no rail, mlx5_0.
    assert digest("mlx5_1", "mlx5_2", conf=f"NCCL_IB_HCA==mlx5_1,mlx5_2\n{tail}") == before
    others = {
        digest("mlx5_1", "mlx5_2", conf=f"NCCL_IB_HCA==mlx5_0,mlx5_1\n{tail}"),
        digest("mlx5_0", "mlx5_1", conf=f"NCCL_IB_HCA==mlx5_1,mlx5_0\n{tail}"),
        digest("mlx5_0", "mlx5_1", conf="NCCL_IB_HCA==mlx5_0,mlx5_1\nNCCL_IB_TC=106\n"),
    }
    assert len({before, *others}) == 4


def test_settings_that_are_there_and_cannot_be_read_are_no_value() -> None:
    shut = host(conf="")
    shut.outputs["cat"] = Output("", f"cat: {CONF}: Input/output error", 1)
    with pytest.raises(Unreadable, match="Input/output error"):
        nccl.parse(nccl.collect(shut, EXPECT))
