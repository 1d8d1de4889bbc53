"""What a host gives is collected once and without its secrets, wherever they lie."""

from __future__ import annotations

import gzip
import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting import collect
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected, write_archive
from ansible_collections.muster.cluster.plugins.module_utils.collecting.collect import collect_host, collected_probes
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output

from tests.fake_host import FakeHost

GPU, NIC = "/sys/bus/pci/devices/0000:1b:00.0", "/sys/bus/pci/devices/0000:1a:00.0"
FILES = {
    f"{GPU}/vendor": "0x10de\n",
    f"{GPU}/class": "0x030200\n",
    f"{NIC}/vendor": "0x15b3\n",
    f"{NIC}/class": "0x020000\n",
    "/sys/class/nvme/nvme0/address": "0000:2a:00.0\n",
    "/sys/class/nvme/nvme0/transport": "pcie\n",
}


def canary(number: int) -> str:
    """Return the secret of one place; no other text has it in it."""
    return f"cn{number:02}Qx7vLp"


@dataclass(frozen=True)
class Place:
    """A file of the host, or what a tool prints; ``{}`` stands for a secret. ``kept``: in the archive without it."""

    name: str
    text: str
    kept: str = ""


# What probes read: a file of the host, or a tool's output.
READ = (
    Place("/proc/cmdline", "root=/dev/sda1 rd.iscsi.password={} seen=01\n", "seen=01"),
    Place("/boot/grub/grub.cfg", "password_pbkdf2 root {}\nlinux /vmlinuz root=/dev/sda1 seen=02\n", "seen=02"),
    Place("/etc/ssh/ssh_host_rsa_key.pub", "ssh-rsa AAAA token={}\n", "ssh-rsa AAAA token="),
    Place("journalctl", "2025-01-21T04:41:44+0000 h kernel: seen 06 https://u:{}@host/\n", "seen 06 https://u:"),
    Place("dmesg", "[    1.0] Command line: seen=07 systemd.set_credential=a:{}\n", "seen=07"),
    Place("ps", "    0   1 /usr/sbin/slurmd -D --token {} seen08\n", "seen08"),
    Place("scontrol", "Hostname = seen09\nSlurmdParams = auth_token={}\n", "seen09"),
    Place("lldpctl", '{{"lldp": {{"seen": "10", "snmp-community": "{}"}}}}\n', '"seen": "10"'),
    Place("nvidia-smi", "<nvidia_smi_log><a>seen11</a><secret>{}</secret></nvidia_smi_log>\n", "seen11"),
    Place("smartctl", '{{\n "seen": "12",\n "password": "a\\"{}"\n}}\n', '"seen": "12"'),
    Place("dmidecode", "Chassis Information\n\tAsset Tag: seen13 PWD={}\n", "seen13"),
    Place("ipmitool", "MAC Address  : 0c:c4:7a:00:00:14\nSNMP Community String   : {}\n", "0c:c4:7a:00:00:14"),
    Place("tail", "[Jul 09 2024 18:14:07] [INFO] seen15 Authorization: Bearer {}\n", "seen15"),
    Place("mstconfig", "seen16\nprivate_key = {}\n", "seen16"),
    Place("mlxlink", '{{"seen": "17", "session_key": "{}"}}\n', '"seen": "17"'),
    Place("lspci", "0000:1b:00.0 seen18 eyJhbGciOi.eyJzdWIiOi.{}\n", "seen18"),
    Place("systemctl", "LoadState=seen19\nEnvironment=HF_TOKEN={}\n", "seen19"),
    Place("dcgmi", "seen20 -----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", "seen20"),
    Place("lscpu", "seen21\n", "seen21"),
    Place("df", "seen22 cifs username=u,password=a,{}\n", "seen22"),
    # Its digest is kept, not its text.
    Place("cat", "NCCL_DEBUG=INFO\nNCCL_SOCKET_TOKEN={}\n"),
    Place("find", "/etc/nccl.conf\n", "/etc/nccl.conf"),
)
# What no probe reads.
UNREAD = (
    *("/etc/shadow", "/root/.ssh/id_rsa", "/etc/ssh/ssh_host_rsa_key", "/etc/munge/munge.key", "/root/.netrc"),
    *("/etc/slurm/slurmdbd.conf", "/proc/1/environ", "/etc/muster/bmc.netrc", "/root/.docker/config.json"),
    *("/var/lib/muster/health.json", "/var/lib/muster/evidence/preflight/a/evidence.json"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root of a host that has a secret in every place, its tools in ``bin``."""
    place = tmp_path / "host"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "uname").symlink_to(shutil.which("uname") or "")
    for name, text in FILES.items():
        _write(place / name.lstrip("/"), text)
    for number, each in enumerate(READ, 1):
        text = each.text.format(canary(number)) if "{}" in each.text else each.text
        if each.name.startswith("/"):
            _write(place / each.name.lstrip("/"), text)
        else:
            # On standard error too, as some tools do.
            output = f"'{place}/{each.name}.out'"
            _write(place / f"{each.name}.out", text)
            _write(place / "bin" / each.name, f"#!/bin/sh\n/bin/cat {output}\n/bin/cat {output} >&2\n")
            (place / "bin" / each.name).chmod(0o755)
    for number, name in enumerate(UNREAD, 50):
        _write(place / name.lstrip("/"), f"{canary(number)}\n")
    return place


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def collected(root: Path) -> Collected:
    tools = str(root / "bin")
    return collect_host(LocalHost(tools, str(root)), "n", 1.0, "0.1.0", tools, str(root))


def unpacked(host: Collected) -> bytes:
    file = io.BytesIO()
    write_archive(file, host)
    return gzip.decompress(file.getvalue())


def found_in(text: bytes) -> set[int]:
    """Return the numbers of the secrets that stand in a text."""
    return {number for number in range(100) if canary(number).encode() in text}


def test_no_secret_is_in_the_archive_and_what_stands_beside_it_is(root: Path) -> None:
    text = unpacked(collected(root))
    assert found_in(text) == set()
    assert [place.name for place in READ if place.kept and place.kept.encode() not in text] == []


def test_without_masking_the_secrets_that_probes_read_would_be_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "masked", lambda text: (text, 0))
    there = found_in(unpacked(collected(root)))
    # Of nccl.conf a digest is kept only.
    assert there == {number for number, place in enumerate(READ, 1) if "{}" in place.text and place.name != "cat"}


def test_what_was_taken_is_listed_with_what_was_masked(root: Path) -> None:
    taken = {(each.probe, each.what): each for each in collected(root).taken}
    assert taken["cmdline", "/proc/cmdline"].masked == 1
    line = Path(root, "proc/cmdline").read_text().replace(canary(1), "(masked)")
    assert taken["cmdline", "/proc/cmdline"].size == len(line)
    assert taken["lscpu", "lscpu -J"].masked == 0
    assert ("mlxlink", "mlxlink -d 0000:1a:00.0 -m -c --rx_fec_histogram --show_histogram --json") in taken
    # Programs of ours that Python is given as text are not shown.
    assert any(what.startswith("/usr/bin/python3 -IS -c ... libnvidia-ml") for probe, what in taken if probe == "nvml")


def test_probes_of_all_stages_are_run_and_those_that_tell_cables() -> None:
    names = collected_probes()
    assert {"nvidia_smi", "mlxlink", "redfish", "kernel_log", "kernel_ring", "nvml", "rail_names", "topology"} < {
        *names
    }
    assert {"lldp", "infiniband_neighbours"} <= {*names} <= {*PROBES}
    assert list(names) == sorted({*names})


def test_probe_that_fails_costs_itself() -> None:
    class Broken(FakeHost):
        def run(self, argv, timeout_seconds):  # type: ignore[no-untyped-def]
            if argv[0] == "lscpu":
                raise RuntimeError("broken")
            return super().run(argv, timeout_seconds)

        def read(self, path: str) -> Output:
            return Output("x\n")

    host = collect_host(Broken(answer=Output("y\n")), "n", 1.0, "0.1.0", "/bin", "/")
    assert host.outputs["lscpu"].error == "lscpu: RuntimeError: broken"
    assert host.outputs["dmidecode"] == Output("y\n")
    assert set(host.outputs) == set(collected_probes())


def test_tool_that_hung_is_not_waited_for_again() -> None:
    hung = Output(rc=None, timed_out=True, error="nvidia-smi: no answer within 30 s")
    host = FakeHost({"nvidia-smi": hung}, answer=Output("y\n"))
    outputs = collect_host(host, "n", 1.0, "0.1.0", "/bin", "/").outputs
    assert sum(argv[0] == "nvidia-smi" for argv in host.runs) == 1
    assert "hung before" in outputs["topology"].error
