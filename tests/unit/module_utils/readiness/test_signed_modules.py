"""Modules that are built on a host with Secure Boot need a key that its firmware trusts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.secure_boot import LOCKDOWN, SECURE_BOOT
from ansible_collections.muster.cluster.plugins.module_utils.readiness import signed_modules

from tests.fake_host import FakeHost
from tests.typed import typed

ON, OFF = {SECURE_BOOT: Output("\6\0\0\0\1")}, {SECURE_BOOT: Output("\6\0\0\0\0")}
KEY, UBUNTUS = signed_modules.CERTIFICATES
ENROLLED, UNKNOWN = f"mokutil --test-key {KEY}", f"mokutil --test-key {UBUNTUS}"


def stack(expect: dict[str, Any], *names: str) -> Any:
    packages = [{"name": name, "version": "570.86.15-1"} for name in names]
    gpu = {**expect["gpu"], "driver": "570.86.15"}
    return typed({**expect, "gpu": gpu, "gpu_stack": {"packages": packages, "services": []}})


def lacks(expect: Any, host: dict[str, Output], here: dict[str, Output] | None = None, doca: bool = False) -> list[str]:
    return signed_modules.lacks(FakeHost(host), FakeHost(here), expect, doca)


@pytest.mark.parametrize(
    "name", ["nvidia-open-570", "nvidia-driver-570", "nvidia-dkms-570-server", "nvidia-kernel-dkms"]
)
def test_driver_that_is_built_needs_a_key(expect: dict[str, Any], name: str) -> None:
    (told,) = lacks(stack(expect, name, "nvidia-fabricmanager-570"), ON)
    assert told.startswith(f"Secure Boot: the modules of {name} would not load, as DKMS has no key yet")
    assert "mokutil --import" in told and "switch Secure Boot off" in told


def test_modules_of_a_storage_client_need_a_key_too(expect: dict[str, Any]) -> None:
    (told,) = signed_modules.lacks(FakeHost(ON), FakeHost(), typed(expect), False, ["vastnfs-dkms"])
    assert told.startswith("Secure Boot: the modules of vastnfs-dkms would not load")


def test_lockdown_alone_takes_no_unsigned_module_either(expect: dict[str, Any]) -> None:
    assert lacks(stack(expect, "nvidia-open-570"), {LOCKDOWN: Output("none [integrity] confidentiality\n")})


@pytest.mark.parametrize("host", [{}, OFF, {LOCKDOWN: Output("[none] integrity confidentiality\n")}])
def test_without_secure_boot_any_module_loads(expect: dict[str, Any], host: dict[str, Output]) -> None:
    assert lacks(stack(expect, "nvidia-open-570"), host, doca=True) == []


@pytest.mark.parametrize(
    "names",
    [
        ("nvidia-fabricmanager-570", "libnccl2"),
        # Signed by Ubuntu.
        ("nvidia-driver-570-server-open", "linux-modules-nvidia-570-server-open-generic"),
    ],
)
def test_what_is_not_built_needs_no_key(expect: dict[str, Any], names: tuple[str, ...]) -> None:
    assert lacks(stack(expect, *names), ON) == []
    assert lacks(typed(expect), ON) == []


def test_kernel_that_runs_the_modules_trusts_who_signed_them(expect: dict[str, Any]) -> None:
    running = {f"/sys/module/{name}/version": Output("1\n") for name in ("nvidia", "mlx5_core")}
    assert lacks(stack(expect, "nvidia-open-570"), {**ON, **running}, doca=True) == []


def test_doca_is_built_too(expect: dict[str, Any]) -> None:
    assert "the modules of DOCA-OFED would not load" in lacks(typed(expect), ON, doca=True)[0]
    (told,) = lacks(stack(expect, "nvidia-open-570"), ON, doca=True)
    assert "the modules of nvidia-open-570 and the modules of DOCA-OFED would not load" in told


@pytest.mark.parametrize(
    ("here", "said"),
    [
        ({KEY: Output("x"), ENROLLED: Output(f"{KEY} is already enrolled\n", rc=1)}, ""),
        (
            {
                KEY: Output("x"),
                UBUNTUS: Output("x"),
                UNKNOWN: Output(f"{UBUNTUS} is not enrolled\n"),
                ENROLLED: Output(f"{KEY} is already enrolled\n", rc=1),
            },
            "",
        ),
        ({KEY: Output("x"), ENROLLED: Output(f"{KEY} is not enrolled\n")}, f"as {KEY} is not enrolled: install dkms"),
        (
            {KEY: Output("x"), ENROLLED: Output(rc=None, error="mokutil: not found")},
            f"as whether {KEY} is enrolled cannot be told (mokutil: not found): install dkms and mokutil",
        ),
        (
            {
                "/etc/dkms/framework.conf.d/site.conf": Output('# a site\'s own\nmok_certificate="/root/site.der"\n'),
                "/root/site.der": Output("x"),
                "mokutil --test-key /root/site.der": Output("SKIP: /root/site.der is already enrolled\n", rc=1),
            },
            "",
        ),
        (
            # As DKMS's own file has it, commented out.
            {
                "/etc/dkms/framework.conf": Output("# mok_certificate=/root/old.der\n"),
                "/root/old.der": Output("x"),
                "mokutil --test-key /root/old.der": Output("/root/old.der is already enrolled\n", rc=1),
            },
            "as DKMS has no key yet",
        ),
    ],
)
def test_key_of_dkms(expect: dict[str, Any], here: dict[str, Output], said: str) -> None:
    told = lacks(stack(expect, "nvidia-open-570"), ON, here)
    assert bool(told) is bool(said) and all(said in each for each in told)


@pytest.mark.parametrize(
    "host",
    [
        {SECURE_BOOT: Output("\6\0\0\0")},
        {SECURE_BOOT: Output("\6\0\0\0\2")},
        {SECURE_BOOT: Output(rc=None, error="Permission denied")},
        {**OFF, LOCKDOWN: Output("none integrity\n")},
        {**OFF, LOCKDOWN: Output(rc=None, error="Permission denied")},
    ],
)
def test_what_cannot_be_read_is_no_pass(expect: dict[str, Any], host: dict[str, Output]) -> None:
    with pytest.raises(Unreadable):
        lacks(stack(expect, "nvidia-open-570"), host)
