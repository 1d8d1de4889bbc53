"""Clients of storage tiers: what is missing to install, build and mount them is told before anything is changed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.readiness import storage_clients

from tests.fake_host import FakeHost

RELEASE = {"/proc/sys/kernel/osrelease": Output("6.8.0-31-generic\n")}
HEADERS = {"/lib/modules/6.8.0-31-generic/build": Output("")}
VAST = {"name": "vast", "kind": "nfs", "client": {"packages": ["vastnfs-dkms=4.0.34"]}}
WEKA = {"name": "wk", "kind": "weka", "source": "10.0.0.1/ckpt"}
BEEGFS = {"name": "bee", "kind": "beegfs", "authentication": True, "client": {"packages": ["beegfs-client-dkms"]}}


def lacks(*tiers: dict[str, Any], here: dict[str, Output] = RELEASE, **more: Any) -> list[str]:
    return storage_clients.lacks(FakeHost(here), tiers, more.get("secrets", ()), more.get("others", ()))


@pytest.mark.parametrize("tier", [VAST, {**BEEGFS, "authentication": False}])
def test_module_that_is_built_needs_the_headers_of_the_running_kernel(tier: dict[str, Any]) -> None:
    (told,) = lacks(tier)
    name = tier["client"]["packages"][0].partition("=")[0]
    assert told.startswith(
        f"{name}: built on the host, expected the headers of the running kernel (/lib/modules/6.8.0-31"
    )
    assert lacks(tier, here={**RELEASE, **HEADERS}) == []
    packages = [*tier["client"]["packages"], "linux-headers-6.8.0-31-generic"]
    assert lacks({**tier, "client": {"packages": packages}}) == []
    assert lacks(tier, others=["linux-headers-6.8.0-31-generic"]) == []


def test_kernel_that_is_not_told_is_no_kernel_with_headers() -> None:
    with pytest.raises(Unreadable):
        lacks(VAST, here={"/proc/sys/kernel/osrelease": Output(rc=None, error="no such file")})


def test_client_that_is_neither_declared_nor_there_is_told() -> None:
    assert lacks(WEKA) == ["tier wk: mount.wekafs is not there, expected client.packages that bring it"]
    assert lacks(WEKA, here={"/usr/sbin/mount.wekafs": Output("")}) == []
    assert lacks({**WEKA, "client": {"packages": ["weka-agent"]}}) == []
    assert lacks({"name": "fsx", "kind": "lustre"})[0].startswith("tier fsx: mount.lustre is not there")
    bare = {"name": "bee", "kind": "beegfs"}
    assert lacks(bare) == ["tier bee: mount.beegfs is not there, expected client.packages that bring it"]
    # Of version 7, which has no helper.
    assert lacks(bare, here={"/etc/beegfs/beegfs-client.conf": Output("")}) == []
    assert lacks({"name": "n", "kind": "nfs"}, {"name": "e", "kind": "existing"}, {"name": "l", "kind": "local"}) == []


def test_secret_that_is_not_given_is_told_by_its_variable() -> None:
    (told,) = lacks(BEEGFS, here={**RELEASE, **HEADERS})
    assert told.startswith("checkpoint_storage_secrets: nothing for tier bee, expected its connAuthFile in base64 or")
    assert lacks(BEEGFS, here={**RELEASE, **HEADERS}, secrets=["bee"]) == []
    assert lacks({**BEEGFS, "authentication": False}, here={**RELEASE, **HEADERS}) == []
