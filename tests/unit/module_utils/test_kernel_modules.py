"""What is absent is loaded and looked for; what cannot be loaded says why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.secure_boot import LOCKDOWN
from ansible_collections.muster.cluster.plugins.module_utils.nic.kernel_modules import absent, load

from tests.fake_host import FakeHost

# As modprobe of kmod 30 says it (Debian 12).
REFUSED = "modprobe: ERROR: could not insert '{}': {}\n"
DKMS = "build the driver again (dkms) after DOCA-OFED is installed"
MOK = "enrol the signer's key (MOK)"


class Kernel(FakeHost):
    """A host that has a module's directory once modprobe has loaded it."""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        output = super().run(argv, timeout_seconds)
        if argv[0] == "modprobe" and output.rc == 0 and not output.stdout:
            self.outputs[f"/sys/module/{argv[-1].replace('-', '_')}"] = Output()
        return output


def test_what_is_loaded_or_built_in_is_not_absent() -> None:
    # sysfs shows no directory of rdma_cm: it is built in, without a parameter.
    host = FakeHost({"/sys/module/ib_uverbs": Output(), "/sys/module/nvidia_peermem": Output()}, Output(rc=1))
    host.outputs["modinfo -n rdma_cm"] = Output("(builtin)\n")
    host.outputs["modinfo -n rdma_ucm"] = Output("/lib/modules/6.1.0/updates/dkms/rdma_ucm.ko\n")
    assert absent(host, ["ib_uverbs", "rdma_cm", "rdma_ucm", "nvidia-peermem", "ib_umad"]) == ["rdma_ucm", "ib_umad"]
    assert not any(command.startswith("modprobe") for command in host.commands)


@pytest.mark.parametrize("lost", [Output(rc=None, error="modinfo: not found"), Output("(builtin)\n", rc=1), Output()])
def test_built_in_is_what_modinfo_says_and_no_less(lost: Output) -> None:
    assert absent(FakeHost({"modinfo": lost}), ["rdma_cm"]) == ["rdma_cm"]


def test_module_is_loaded_and_then_there() -> None:
    host = Kernel({"modprobe": Output(), "modinfo": Output("/lib/modules/rdma_ucm.ko\n")})
    assert load(host, "rdma-ucm") == "" and absent(host, ["rdma-ucm"]) == []
    assert "modprobe rdma-ucm" in host.commands


def test_modprobe_that_loads_nothing_is_no_success() -> None:
    # "install rdma_ucm /bin/true" in modprobe.d.
    host = FakeHost({"modprobe": Output(), "modinfo": Output("install /bin/true\n")})
    assert load(host, "rdma_ucm").startswith("rdma_ucm cannot be loaded: modprobe ended well and loaded nothing")


@pytest.mark.parametrize(
    ("name", "output", "said", "advice"),
    [
        ("rdma_ucm", Output("", REFUSED.format("rdma_ucm", "Exec format error"), 1), "Exec format error", ""),
        (
            "nvidia_peermem",
            Output("", REFUSED.format("nvidia_peermem", "Invalid argument"), 1),
            "Invalid argument",
            DKMS,
        ),
        ("nvidia-peermem", Output("", "modprobe: FATAL: Module nvidia-peermem not found\n", 1), "not found", DKMS),
        ("nvidia_peermem", Output("", REFUSED.format("nvidia_peermem", "Key was rejected by service"), 1), "Key", MOK),
        ("rdma_ucm", Output("", REFUSED.format("rdma_ucm", "Required key not available"), 1), "Required key", MOK),
        ("rdma_ucm", Output(rc=None, error="modprobe: not found in /bin"), "modprobe: not found in /bin", ""),
        ("rdma_ucm", Output(rc=1), "modprobe: exit status 1", ""),
        ("rdma_ucm", Output(rc=-9), "modprobe: exit status -9", ""),
    ],
)
def test_module_that_cannot_be_loaded_says_why_and_what_to_do(
    name: str, output: Output, said: str, advice: str
) -> None:
    why = load(FakeHost({"modprobe": output}), name)
    assert why.startswith(f"{name} cannot be loaded: ") and said in why
    assert [each for each in (DKMS, MOK) if each in why] == ([advice] if advice else [])


@pytest.mark.parametrize(
    ("lockdown", "advice"),
    [
        (Output("none [integrity] confidentiality\n"), True),
        (Output("none integrity [confidentiality]\n"), True),
        (Output("[none] integrity confidentiality\n"), False),
        (Output(rc=None, error="No such file or directory"), False),
    ],
)
def test_secure_boot_is_named_where_the_kernel_is_locked_down(lockdown: Output, advice: bool) -> None:
    refused = Output("", REFUSED.format("rdma_ucm", "Operation not permitted"), 1)
    why = load(FakeHost({"modprobe": refused, LOCKDOWN: lockdown}), "rdma_ucm")
    assert "Operation not permitted" in why and (MOK in why) is advice
