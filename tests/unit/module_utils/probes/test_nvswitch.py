"""What tells of NVSwitches that a host's own NICs manage: those NICs, and the subnet manager that works through one."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvlsm, nvswitch_nics
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvlsm import SubnetManager

from tests.fake_host import FakeHost
from tests.typed import typed

PCI = "/sys/bus/pci/devices"
LIST = "0000:05:00.0 SW_MNG\n0000:06:00.0 unread\n0000:1a:00.0 none\n3 in all\n"
FILES = "\n==> files <==\n/sys/module/ib_umad yes\n/opt/nvidia/nvlsm/sbin/nvlsm yes\n"
# As ps printed it of a process of that name.
RUNS = "==> process <==\n    0 Ss\n" + FILES


def nic(address: str, vpd: Output) -> dict[str, Output]:
    base = f"{PCI}/{address}"
    return {f"{base}/vendor": Output("0x15b3\n"), f"{base}/class": Output("0x020700\n"), f"{base}/vpd": vpd}


def test_one_fact_of_each_nic_is_kept(expect) -> None:
    host = FakeHost(
        {
            **nic("0000:05:00.0", Output("V3 SW_MNG SN MT2345X00001")),
            **nic("0000:06:00.0", Output(rc=None, error="Input/output error")),
            **nic("0000:1a:00.0", Output("SN MT2345X00002")),
        }
    )
    output = nvswitch_nics.collect(host, typed(expect))
    assert output == Output(LIST)
    assert nvswitch_nics.parse(output) == {"0000:05:00.0": True, "0000:06:00.0": None, "0000:1a:00.0": False}


def test_host_without_nics_has_none(expect) -> None:
    assert nvswitch_nics.parse(nvswitch_nics.collect(FakeHost(), typed(expect))) == {}


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "3 in all\n", LIST[:-1], LIST.replace("3 in", "4 in"), LIST.partition("\n")[2], LIST[:40]),
        *(LIST.replace("none", "nothing"), LIST.replace("none", "no SW_MNG"), LIST.replace("0000:1a", "1a")),
        *(LIST.replace("0000:1a", "0000:05"), "Permission denied\n"),
    ],
)
def test_list_that_is_not_whole_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        nvswitch_nics.parse(Output(text))


def test_list_of_a_failed_run_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="exit status 1"):
        nvswitch_nics.parse(Output(LIST, "killed", 1))


@pytest.mark.parametrize(
    ("process", "states"),
    [
        (Output("    0 Ssl\n"), ("Ssl",)),
        (Output("    0 Ssl\n    0 Z\n"), ("Ssl", "Z")),
        # A user's program of that name is not the service's.
        (Output(" 1000 R+\n"), ()),
        (Output(rc=1), ()),
    ],
)
def test_process_and_what_it_needs_are_told(expect, process: Output, states: tuple[str, ...]) -> None:
    host = FakeHost({"ps": process, "/sys/module/ib_umad": Output()})
    found = nvlsm.parse(nvlsm.collect(host, typed(expect)))
    assert found == SubnetManager(states, installed=False, module=True)
    assert host.limits == [nvlsm.TIMEOUT_SECONDS]


def test_installed_program_is_told() -> None:
    assert nvlsm.parse(Output(RUNS)) == SubnetManager(("Ss",), installed=True, module=True)


@pytest.mark.parametrize(
    "text",
    [
        *("", "==> process <==\n", RUNS.replace(FILES, ""), RUNS.replace("    0 Ss\n", ""), RUNS.replace("Ss", "")),
        *(RUNS.replace("Ss", "Ss nvlsm"), RUNS.replace("    0 Ss", "error: no such option")),
        *(RUNS.replace("ib_umad yes", "ib_umad"), RUNS.replace("ib_umad yes", "ib_umad maybe"), RUNS[:-40], RUNS[:-80]),
        RUNS.replace("process <==", "process <== (exit status 1: )"),
        RUNS.replace("process <==\n    0 Ss\n", "process <== (exit status 2: bad)\n"),
        RUNS.replace("process <==\n    0 Ss\n", "process <== (ps: no answer within 10 s)\n"),
    ],
)
def test_anything_else_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        nvlsm.parse(Output(text))


def test_output_of_a_failed_run_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="exit status 1"):
        nvlsm.parse(Output(RUNS, "killed", 1))
