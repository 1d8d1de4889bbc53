"""Which driver the kernel runs, and when that takes a reboot."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import PackageError
from ansible_collections.muster.cluster.plugins.modules.gpu_packages import (
    check_files,
    leave_burn_in_alone,
    loaded_driver,
    why_reboot,
)

from tests.contracts.table import refuse_unknown

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (builder@host)  Thu Jan 23\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"


@pytest.mark.parametrize(("text", "version"), [(OPEN, "570.86.15"), (CLOSED, "535.104.05"), (OPEN[:66], "570.86.15")])
def test_loaded_driver(text, version):
    assert loaded_driver(text) == version


@pytest.mark.parametrize("text", ["", "NVRM version: NVIDIA UNIX", "GCC version:  gcc version 13.3.0\n"])
def test_loaded_driver_that_cannot_be_read_is_an_error(text):
    with pytest.raises(PackageError, match="expected 'NVRM version"):
        loaded_driver(text)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, ""),
        ({"proc/driver/nvidia/version": OPEN}, ""),
        ({"proc/driver/nvidia/version": CLOSED}, "driver 535.104.05 is loaded, declared is 570.86.15"),
        ({"sys/module/nouveau/refcnt": "0"}, "nouveau is loaded"),
    ],
)
def test_reboot_is_asked_for_where_another_driver_runs(tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    why = why_reboot(LocalHost(root=str(tmp_path)), "570.86.15")
    assert said in why and bool(why) is bool(said)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"etc/nvidia-imex/nodes_config.cfg": "10.0.0.1\n"},
            "found 'etc/nvidia-imex/nodes_config.cfg', expected an absolute",
        ),
        ({"/etc/apt/preferences.d/muster-gpu-stack.pref": ""}, "expected an absolute path, other than"),
        ({"/etc/nvidia-imex/nodes_config.cfg": ["10.0.0.1"]}, "found \\['10.0.0.1'\\], expected a text"),
    ],
)
def test_files_are_texts_by_absolute_path(files, said):
    own = {"/etc/apt/preferences.d/muster-gpu-stack.pref": "Package: a\n"}
    check_files({"/etc/nvidia-imex/nodes_config.cfg": "10.0.0.1\n"}, own)
    with pytest.raises(PackageError, match=said):
        check_files(files, own)


@pytest.mark.parametrize("active", [True, False])
def test_burn_in_at_work_is_neither_changed_nor_rebooted(active):
    class Host(LocalHost):
        def run(self, argv, timeout_seconds):
            refuse_unknown(argv)
            return Output(rc=0 if active else 3)

    if active:
        with pytest.raises(PackageError, match="at work on this host"):
            leave_burn_in_alone(Host())
    else:
        leave_burn_in_alone(Host())
