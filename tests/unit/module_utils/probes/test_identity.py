"""What tells one machine from another: names, ids, keys, Slurm's daemon, the BMC's address, cables; and versions."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined, listed, split
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import (
    boot_time,
    cables,
    enroot,
    hostname,
    ipmi_lan,
    machine_id,
    mlxlink,
    rdma_core,
    redfish_manager,
    slurmd,
    ssh_host_keys,
)
from ansible_collections.muster.cluster.plugins.module_utils.probes.slurmd import Slurmd

from tests.fake_host import FakeHost
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
ANSWERS = split((HEALTHY / "slurmd.txt").read_text())
STATUS = ANSWERS["status"].stdout
GPU_01 = Slurmd(("gpu-01",), "2026-11-20T06:03:11")
SILENT = Output("", "Unable to contact slurmd", 1)
NOT_FOUND = Output(rc=None, error="slurmd: not found in /usr/bin")
KEY = "SHA256:widz3VCUYi2fsm+1uVEi8eot0UaINxQLNItj+4/Ljio"


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (hostname, "gpu-01"),
        (machine_id, "5f2b8c1e9a7d4e63b0c4d8f1a2e6b397"),
        (boot_time, 1795154530),
        (ipmi_lan, "7c:c2:55:09:5b:e0"),
        (slurmd, GPU_01),
        (rdma_core, "50.0"),
        (enroot, "3.5.0"),
    ],
)
def test_healthy_texts(probe, expected):
    assert probe.parse(Output((HEALTHY / f"{probe.NAME}.txt").read_text())) == expected


@pytest.mark.parametrize(
    ("probe", "text"),
    [
        (hostname, ""),
        (hostname, "gpu-01"),
        (hostname, "two words\n"),
        (machine_id, ""),
        (machine_id, "uninitialized\n"),
        (machine_id, "5f2b8c1e9a7d4e63b0c4d8f1a2e6b39\n"),
        (boot_time, "cpu  1 2 3\nctxt 7\n"),
        (boot_time, "btime 17951"),
        (ipmi_lan, ""),
        (ipmi_lan, "MAC Address             : 7c:c2:55:09:5b\n"),
        (rdma_core, ""),
        (rdma_core, "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.50.0\n/etc/passwd\n"),
        (rdma_core, "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.5"),
        (enroot, "enroot: command failed\n"),
        (enroot, "3.5"),
        (ssh_host_keys, ""),
        (ssh_host_keys, listed({}).stdout),
        (ssh_host_keys, listed({"/etc/ssh/ssh_host_rsa_key.pub": Output("ssh-rsa AAAAB3\n")}).stdout),
        (ssh_host_keys, listed({"/etc/ssh/ssh_host_rsa_key.pub": Output(rc=None, error="Permission denied")}).stdout),
        (slurmd, ""),
        (slurmd, "==> processes <==\nwhat is this\n"),
    ],
)
def test_what_is_cut_off_empty_or_no_identifier_is_unreadable(probe, text):
    with pytest.raises(Unreadable):
        probe.parse(Output(text))


@pytest.mark.parametrize("probe", [hostname, ipmi_lan, enroot])
def test_tool_that_failed_is_unreadable(probe):
    with pytest.raises(Unreadable):
        probe.parse(Output((HEALTHY / f"{probe.NAME}.txt").read_text(), "killed", 1))


def test_host_keys_are_told_as_ssh_keygen_tells_them():
    keys = ssh_host_keys.parse(Output((HEALTHY / "ssh_host_keys.txt").read_text()))
    assert keys["ssh-ed25519"] == KEY and sorted(keys) == ["ssh-ed25519", "ssh-rsa"]
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen here")
    text = split((HEALTHY / "ssh_host_keys.txt").read_text())["/etc/ssh/ssh_host_rsa_key.pub"].stdout
    argv = ["ssh-keygen", "-l", "-f", "-"]
    shown = subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout
    assert keys["ssh-rsa"] in shown.split()


def test_this_machine_can_be_asked(expect):
    host = LocalHost()
    assert hostname.parse(hostname.collect(host, typed(expect))) == os.uname().nodename
    assert boot_time.parse(boot_time.collect(host, typed(expect))) > 0
    assert rdma_core.parse(rdma_core.collect(host, typed(expect)))


def _status(**fields):
    lines = [line.split(" = ") for line in STATUS.splitlines()]
    shown = {name.strip(): value for name, value in lines} | {name.replace("_", " "): v for name, v in fields.items()}
    return Output("".join(f"{name:24} = {value}\n" for name, value in shown.items()))


@pytest.mark.parametrize(
    ("processes", "status", "expected"),
    [
        ("    0   12225 /usr/sbin/slurmd -D -s\n", _status(), GPU_01),
        # The daemon's child before it runs the prolog.
        (
            "0 12225 /usr/sbin/slurmd -D\n0 977 /usr/sbin/slurmd -D\n",
            _status(),
            GPU_01,
        ),
        ("0 12225 /usr/sbin/slurmd -D\n", _status(Hostname="gpu-02"), Slurmd(("gpu-02",), "2026-11-20T06:03:11")),
        # scontrol asked another machine: the address that slurm.conf has for this hostname is not this one's.
        ("0 431 /usr/sbin/slurmd -D -N gpu-02\n", _status(), Slurmd(("gpu-02",), None)),
        ("0 431 /usr/sbin/slurmd -D -s\n", _status(), "process 12225 is not on this machine"),
        ("0 431 /usr/sbin/slurmd -Ngpu-02 -D\n", SILENT, Slurmd(("gpu-02",), None)),
        ("0 431 /usr/sbin/slurmd -D\n", SILENT, "Unable to contact slurmd"),
        (
            "0 431 /usr/sbin/slurmd -D\n",
            Output(rc=None, error="scontrol: no answer within 10 s"),
            "no answer within 10 s",
        ),
        ("0 12225 /usr/sbin/slurmd -D\n", Output("Slurmd PID               = 12225\n"), "no Hostname"),
        # One machine that is two nodes.
        (
            "0 12225 /usr/sbin/slurmd -N gpu-01\n0 12226 /usr/sbin/slurmd -N gpu-02\n",
            _status(),
            Slurmd(("gpu-01", "gpu-02"), "2026-11-20T06:03:11"),
        ),
        ("0 12225 /usr/sbin/slurmd -D\n0 12226 /opt/b/slurmd -D\n", _status(), "does not say"),
        # A user's program of this name says nothing.
        (
            "0 12225 /usr/sbin/slurmd -D\n2001 99 slurmd -N gpu-09\n",
            _status(),
            GPU_01,
        ),
        ("2001 12225 slurmd -N gpu-01\n", _status(), "slurmd does not run"),
    ],
)
def test_slurmd_is_believed_about_this_machine_alone(processes, status, expected):
    output = joined({"processes": Output(processes), "status": status})
    if isinstance(expected, Slurmd):
        assert slurmd.parse(output) == expected
    else:
        with pytest.raises(Unreadable, match=expected):
            slurmd.parse(output)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (NOT_FOUND, Slurmd()),
        (Output("slurm 24.11.5\n"), None),
        (Output(rc=None, error="slurmd: no answer within 10 s"), None),
        (Output("", "slurmd: error: out of memory", 1), None),
    ],
)
def test_host_without_slurm_is_told_from_one_whose_daemon_is_down(expect, version, expected):
    host = FakeHost({"ps": Output(rc=1), "slurmd": version})
    output = slurmd.collect(host, typed(expect))
    assert host.commands == [" ".join(slurmd.PROCESSES), "slurmd -V"]
    if expected is not None:
        assert slurmd.parse(output) == expected
    else:
        with pytest.raises(Unreadable, match="slurmd does not run"):
            slurmd.parse(output)


def test_unread_list_of_processes_is_no_host_without_slurm(expect):
    host = FakeHost({"ps": Output(rc=None, error="ps: not found in /usr/bin"), "slurmd": NOT_FOUND})
    with pytest.raises(Unreadable, match="ps: not found"):
        slurmd.parse(slurmd.collect(host, typed(expect)))


def test_snmp_community_of_a_bmc_is_not_kept(expect):
    text = "MAC Address             : 7C:C2:55:09:5B:E0\nSNMP Community String   : secret\n"
    output = ipmi_lan.collect(FakeHost({"ipmitool": Output(text)}), typed(expect))
    assert ipmi_lan.parse(output) == "7c:c2:55:09:5b:e0"
    assert "secret" not in output.stdout


def test_nothing_is_asked_of_what_the_class_does_not_have(expect):
    without = typed({**expect, "bmc": None, "nic": None})
    host = FakeHost()
    assert ipmi_lan.parse(ipmi_lan.collect(host, without)) is None
    assert redfish_manager.parse(redfish_manager.collect(host, without)) is None
    assert enroot.parse(enroot.collect(host, without)) is None
    assert cables.collect(host, without).rc is None
    assert host.runs == []


def test_image_runtime_is_asked_where_ranks_run_in_an_image(expect):
    inside = {**expect, "collective": {**expect["collective"], "container": "registry.example/nccl:1"}}
    host = FakeHost({"enroot": Output("3.5.0\n")})
    assert enroot.parse(enroot.collect(host, typed(inside))) == "3.5.0"


def test_libraries_of_two_versions_are_both_told(expect):
    paths = ("/usr/lib64/libibverbs.so.1.14.50.0", "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0")
    host = FakeHost(dict.fromkeys(paths, Output()))
    assert rdma_core.parse(rdma_core.collect(host, typed(expect))) == "44.0+50.0"
    assert rdma_core.parse(rdma_core.collect(FakeHost(), typed(expect))) == "none"


def test_cables_are_those_that_mlxlink_tells_with_its_counters(expect):
    texts = (Output((HEALTHY / f"{name}.txt").read_text()) for name in ("cables", "mlxlink"))
    found, whole = ({rail: link.serial for rail, link in mlxlink.parse(text).links.items()} for text in texts)
    assert found == whole and None not in found.values()
    host = FakeHost({"mlxlink": Output("{}")})
    output = cables.collect(host, typed(expect))
    rails = expect["nic"]["rails"]
    asked = [f"mlxlink -d {rail['address']} -m --json" for rail in rails]
    assert sorted(host.commands) == ["mlxlink --version", *asked]
    assert list(split(output.stdout)) == [f"rail{rail}" for rail in range(8)]


REDFISH = {"address": "192.0.2.1", "netrc": "/etc/netrc", "certificate": None}
MANAGER = "/redfish/v1/Managers/1"
ETHERNET = f"{MANAGER}/EthernetInterfaces/1"


@pytest.mark.parametrize(
    ("documents", "asked", "declared"),
    [
        (["/redfish/v1/Chassis/1/Thermal", MANAGER, ETHERNET], [MANAGER, ETHERNET], True),
        (["/redfish/v1/Chassis/1/Thermal", f"{MANAGER}/LogServices/SEL/Entries"], [], False),
        ([ETHERNET], [ETHERNET], False),
    ],
)
def test_of_a_bmc_only_what_it_tells_of_itself_is_read(expect, documents, asked, declared):
    bmc = {**expect["bmc"], "interface": "redfish", "redfish": {**REDFISH, "documents": documents}}
    answers = split((HEALTHY / "redfish_manager.txt").read_text())
    whole = {f"https://192.0.2.1{path}": answer for path, answer in answers.items()}

    class Bmc(FakeHost):
        def run(self, argv, timeout_seconds):
            self.runs.append(tuple(argv))
            return whole[argv[-1]]

    host = Bmc()
    found = redfish_manager.parse(redfish_manager.collect(host, typed({**expect, "bmc": bmc})))
    assert [argv[-1] for argv in host.runs] == [f"https://192.0.2.1{path}" for path in asked]
    assert (found.mac if found else None) == ("7c:c2:55:1f:08:a4" if asked else None)
    assert redfish_manager.manager_declared(typed({**expect, "bmc": bmc})) is declared


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("7C:C2:55:1F:08:A4", "unknown"),
        # The host's own interface, as the BMC lists it.
        ("/redfish/v1/Managers/1/Eth", "/redfish/v1/Systems/1/Eth"),
    ],
)
def test_other_addresses_are_not_the_bmcs(old, new):
    text = (HEALTHY / "redfish_manager.txt").read_text()
    assert old in text
    assert redfish_manager.parse(Output(text.replace(f'"{old}', f'"{new}'))).mac is None
