"""Parsers of the small tools: one good text each, and what must not be taken for a value."""

import importlib

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import (
    boot_id,
    chrony,
    disk_free,
    lscpu,
    meminfo,
    nccl,
    uname,
)

TRACKING = "C0A80101,ntp.example,3,1.0,-0.000250,0.0,0.0,0.0,0.0,0.0,0.0,0.0,64.0,Normal\n"
DF = "Filesystem 1-blocks Used Available Capacity Mounted on\n"
SHA = "ab" * 32
LSCPU_OLD = """{ "lscpu": [
  {"field": "Core(s) per socket:", "data": "48"}, {"field": "Socket(s):", "data": "2"}] }"""
LSCPU_NEW = """{ "lscpu": [ {"field": "Vendor ID:", "data": "GenuineIntel", "children": [
  {"field": "Model name:", "data": "Xeon", "children": [
    {"field": "Core(s) per socket:", "data": "48"}, {"field": "Socket(s):", "data": "2"}]}]}] }"""


@pytest.mark.parametrize(
    ("probe", "text", "expected"),
    [
        (lscpu, LSCPU_OLD, lscpu.Cpu(2, 96, None)),
        (lscpu, LSCPU_NEW, lscpu.Cpu(2, 96, "Xeon")),
        (meminfo, "MemTotal:       2097152 kB\nMemFree:  5 kB\nSwapTotal: 1025 kB\n", meminfo.Memory(2048, 2)),
        (meminfo, "MemTotal:       2097152 kB\nSwapTotal: N/A\n", meminfo.Memory(2048, None)),
        (boot_id, "11111111-2222-3333-4444-555555555555\n", "11111111-2222-3333-4444-555555555555"),
        (uname, "6.1.0-28-amd64\n", "6.1.0-28-amd64"),
        (chrony, TRACKING, chrony.Tracking(True, "ntp.example", 0.25)),
        (chrony, TRACKING.replace("Normal", "Not synchronised"), chrony.Tracking(False, "ntp.example", 0.25)),
        # chrony's own clock as reference: nobody steers it.
        (chrony, TRACKING.replace("C0A80101", "7F7F0101"), chrony.Tracking(False, "ntp.example", 0.25)),
        (chrony, TRACKING.replace(",3,", ",0,"), chrony.Tracking(False, "ntp.example", 0.25)),
        (disk_free, DF + "/dev/vda1 10 4 6 40% /\nserver:/a b 9 1 8 - /mnt/a b\n", {"/": 6, "/mnt/a b": 8}),
        (nccl, "", nccl.Nccl("none", "none")),
        (nccl, "/usr/lib/libnccl.so.2\n/usr/lib/libnccl.so.2.21.5\n", nccl.Nccl("2.21.5", "none")),
        (nccl, f"/etc/nccl.conf\n{SHA}  /etc/nccl.conf\n", nccl.Nccl("none", SHA)),
    ],
)
def test_parse(probe, text, expected):
    assert probe.parse(Output(text)) == expected


@pytest.mark.parametrize(
    ("probe", "output"),
    [
        (lscpu, Output("")),
        (lscpu, Output(LSCPU_OLD[:40])),
        (lscpu, Output("[1, 2]")),
        (lscpu, Output('{"lscpu": 5}')),
        (lscpu, Output(LSCPU_OLD.replace('"2"', '"-"'))),
        (lscpu, Output(LSCPU_OLD.replace('"48"', '"0"'))),
        (lscpu, Output(LSCPU_OLD, rc=1)),
        (meminfo, Output("")),
        (meminfo, Output("MemTotal:  N/A kB\n")),
        (meminfo, Output("MemTotal:  2097152")),
        (boot_id, Output("")),
        (boot_id, Output("11111111-2222")),
        (uname, Output("")),
        (uname, Output("6.1.0", rc=-9)),
        (chrony, Output("506 Cannot talk to daemon\n", rc=1)),
        (chrony, Output("")),
        (chrony, Output(TRACKING[:40])),
        (chrony, Output(TRACKING.replace("-0.000250", "nan"))),
        (chrony, Output(TRACKING.replace("-0.000250", "N/A"))),
        (chrony, Output(TRACKING.replace("Normal", "Norm"))),
        (disk_free, Output("")),
        (disk_free, Output(DF + "/dev/vda1 10 4 6 40% /")),
        (disk_free, Output(DF + "/dev/vda1 10 4\n")),
        (disk_free, Output(DF + "/dev/vda1 10 4 6 40% /\n", "df: /x: Input/output error\n", 1)),
        (nccl, Output("/etc/nccl.conf\n")),
        (nccl, Output("", "sha256sum: /etc/nccl.conf: Input/output error", 1)),
    ],
)
def test_not_a_value(probe, output):
    with pytest.raises(Unreadable):
        probe.parse(output)


@pytest.mark.parametrize(
    ("path", "mount"), [("/var", "/var"), ("/var/lib/x", "/var"), ("/variety", "/"), ("/", "/"), ("/home/", "/")]
)
def test_file_system_of_path(path, mount):
    assert disk_free.file_system_of(path, {"/": 1, "/var": 2}) == mount


def test_path_under_no_file_system():
    assert disk_free.file_system_of("/srv", {"/var": 2}) is None


@pytest.mark.parametrize("name", sorted(PROBES))
@pytest.mark.parametrize("text", ["", "\n", "\x00\xff\x7f", "N/A", "ERR!", "{}", "<a/>", "[", "0", "-1"])
def test_garbage_raises_nothing_but_unreadable(name, text):
    module = importlib.import_module(PROBES[name].__name__)
    for rc in (0, 1):
        try:
            module.parse(Output(text, rc=rc))
        except Unreadable:
            continue
        # A kernel's release may be any word, no mount is declared where mounts says nothing of one, and a host without
        # NICs has no names.
        empty = (name, text) in (("mounts", "{}"), ("rail_names", ""))
        assert rc == 0 and (name in ("nccl", "uname") or empty), f"{name} took {text!r} with status {rc} for a value"
