"""``muster judge`` of every recorded file as it lies there, without a class: known, never a pass, faults by name."""

from __future__ import annotations

from functools import cache

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_files import saved_in
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_verdicts import Told, judged

from .judged import NOT_COVERED, RECORDED, ROWS

pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded outputs at {RECORDED}")

FILES = sorted(path.relative_to(RECORDED).as_posix() for path in RECORDED.rglob("*") if path.is_file())
FILES = [file for file in FILES if file != "SOURCES.md"]
SICK = sorted({row.file for row in ROWS if row.verdict == FAIL} & set(FILES))
_OWN_DOCUMENT = "a document of a program that keeps outputs of several tools in a form of its own"
_CAPTURE = "texts of help and other programs stand beside the outputs"
# Beside NOT_COVERED: of these, all or a part is nobody's.
UNKNOWN = {
    "dcgmi/diag-json-4x-8gpu-diagnostic-test-fragment.txt": "one test cut out of a document, which says nothing else",
    "nccl-tests/a100x8-allreduce-columns-removed.txt": "columns that nccl-tests does not print like this",
    "nccl-tests/h100-2node-allreduce-ib-xe9680-full.txt": "mpirun's notes stand before it",
    "nccl-tests/oci-ncclscout-pairwise-3nodes.txt": "a report of another program",
    **{f"net/ip-json-bond-{state}.json": _OWN_DOCUMENT for state in ("degraded", "good", "missing-intf", "slave-down")},
    "net/sysfs-dgxa100-good.json": _OWN_DOCUMENT,
    "net/sysfs-ib-bad-rate.json": _OWN_DOCUMENT,
    "net/sysfs-ib-operstate-down.json": _OWN_DOCUMENT,
    "net/sysfs-nvme-pcie-downgraded.json": _OWN_DOCUMENT,
    "numa/numactl-H-spr-snc4-8nodes.txt": "numa reads /sys; numactl is not run",
    "nvidia-smi/capture-h100-1gpu-590.48.01.txt": _CAPTURE,
    "nvidia-smi/capture-h200-1gpu-590.48.01.txt": _CAPTURE,
}
_FEWER = "as many parts as a class has"
_SPEED = "how fast it must be"
_ROAD = "which network NCCL must take"
# What only a class can tell of sick files that are known.
ONLY_A_CLASS_SAYS = {
    "fio/fio-nvme-randrw-4k.json": _SPEED,
    "ib/ibstat-h100-2x400g-disabled.txt": "whether a port is used",
    "ib/ibstat-h100-3x100g-disabled.txt": "whether a port is used",
    "ib/sysfs-class-infiniband-procfs-mixed.txt": "how many lanes the one port must have",
    "kernel/pcie-limited-by-gen4-switch-h100.log": "whether the slot must do Gen5",
    "lspci/lspci-vvv-cx7-only.txt": _FEWER,
    "lspci/lspci-vvv-dell-xe9680-hgx-h100.txt.gz": "where its GPUs lie",
    "mlxconfig/mstconfig-e-query-cx4lx-template.txt": "how the firmware must be set",
    "nccl-log/gdr-disabled-roce.log": _ROAD,
    "nccl-log/ib-sharp-h100-4nic.log": _ROAD,
    "nccl-log/init-h800-no-ib-socket-fallback-excerpt.log": _ROAD,
    "nccl-log/init-sharp-ib-nvls-h100-2node-excerpt.log": _ROAD,
    "nccl-log/net-ib-8x-mlx5-oob.log": _ROAD,
    "numa/lscpu-3.txt": _FEWER,
    "nvbandwidth/h2d-ce-8gpu-gen4.txt": _SPEED,
    "nvidia-smi/capture-h100-1gpu-590.48.01.txt": _FEWER,
    "nvidia-smi/capture-h200-1gpu-590.48.01.txt": _FEWER,
    "nvidia-smi/query-gpu-h100-idle.csv": "that it was to be under load",
    "nvidia-smi/qx-h100x8-570.86.15.xml": "whether the slot must do Gen5",
    "nvidia-smi/qx-pro-6000-maxq-blackwell-v13.xml": "whether ECC must be on",
    "nvidia-smi/topo-h100x8-nv18-no-nics.txt": _FEWER,
    "nvidia-smi/topo-nv18x8-12nics-tabs-numa-off.txt": "how many NUMA nodes there are",
    "other/nvbandwidth-json-single-gpu-gen3.json": _SPEED,
    "perftest/ib_write_bw-cx7-400g-gpudirect-mtu1024.txt": _SPEED,
    "perftest/ib_write_bw-roce-bidir-peak-not-measured.txt": _SPEED,
    "redfish/smc821ge-thermal.json": _FEWER,
    "roce/mlnx_qos-dscp-pfc3.txt": "which priority is lossless",
    "roce/show_gids-one-port-without-ip.txt": "whether a port is used",
}


@cache
def _told(file: str) -> tuple[Told, ...]:
    return tuple(judged(saved_in(str(RECORDED / file), None), None))


def _known(file: str) -> bool:
    return not any("no tool recognised" in each.finding.reason for each in _told(file))


@pytest.mark.parametrize("file", FILES)
def test_tool_is_known_by_the_text_alone(file: str) -> None:
    listed = {file, f"{file.partition('/')[0]}/"} & {*NOT_COVERED, *UNKNOWN}
    assert _known(file) or listed, [each.finding.reason for each in _told(file)]


@pytest.mark.parametrize("file", FILES)
def test_nothing_passes_without_a_class(file: str) -> None:
    assert _told(file)
    assert not [each for each in _told(file) if each.finding.verdict == PASS]


@pytest.mark.parametrize("file", SICK)
def test_fault_is_named_unless_only_a_class_tells_it(file: str) -> None:
    fails = [each for each in _told(file) if each.finding.verdict == FAIL]
    assert fails or file in {*ONLY_A_CLASS_SAYS, *UNKNOWN}, [each.finding.reason for each in _told(file)]


def test_lists_hold_no_more_than_they_must() -> None:
    named = {file for file in SICK if any(each.finding.verdict == FAIL for each in _told(file))}
    assert sorted(named & set(ONLY_A_CLASS_SAYS)) == []
    assert [file for file in UNKNOWN if file in FILES and _known(file)] == []
