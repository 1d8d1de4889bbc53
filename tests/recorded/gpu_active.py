"""What dcgmi diag and nvbandwidth printed on real machines, and what the active GPU checks must say of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .row import Row

# Addresses where the recording does not tell them: the results of a run say GPU 0, 1, 2 only.
ADDRESSES = tuple(f"0000:{bus:02x}:00.0" for bus in range(0x10, 0x18))
V100 = ("0000:60:00.0",)
DIAG = ("dcgm_diag",)
LISTED = "dcgmi discovery -l"
BANDWIDTH = ("gpu_bandwidth",)


def gpus(addresses: Sequence[str]) -> dict[str, Any]:
    """Return the part of a class that says which GPUs there are."""
    parts = [{"slot": f"GPU{index}", "address": address} for index, address in enumerate(addresses)]
    return {"gpu": {"count": len(parts), "parts": parts}}


def listing(addresses: Sequence[str]) -> str:
    """Return what ``dcgmi discovery -l`` prints of these GPUs."""
    lines = [f"{len(addresses)} GPU{'s' if len(addresses) != 1 else ''} found.", "| GPU ID | Device Information |"]
    for number, address in enumerate(addresses):
        lines += [f"| {number:<6} | Name: GPU |", f"|        | PCI Bus ID: {address} |"]
    return "\n".join(lines) + "\n"


def diag(level: int, addresses: Sequence[str], exit_status: int = 0) -> Callable[[bytes], Output]:
    """Return what makes the stress' output of a recorded ``dcgmi diag``: discovery names the GPUs."""

    def run(data: bytes) -> Output:
        return blocks.joined(
            {
                LISTED: Output(listing(addresses)),
                f"dcgmi diag -r {level} -j": Output(data.decode(), rc=exit_status),
            }
        )

    return run


def fragment(data: bytes) -> Output:
    """Return the document that a recorded test object, with the comma after it, was cut out of."""
    test = json.loads(data.decode().strip().rstrip(","))
    document = {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [test]}]}}
    return diag(4, ADDRESSES)(json.dumps(document).encode())


def nvlink_errors(data: bytes) -> Output:
    """Return what makes the probe's output of one GPU's recorded counters."""
    return blocks.joined({LISTED: Output(listing(ADDRESSES[:1])), "dcgmi nvlink -e -g 0 -j": Output(data.decode())})


def nvbandwidth(addresses: Sequence[str], exit_status: int = 0) -> Callable[[bytes], Output]:
    """Return what makes the stress' output of a recorded nvbandwidth: nvidia-smi names the GPUs."""
    named = "".join(f"{index}, 0000{address}\n" for index, address in enumerate(addresses))

    def run(data: bytes) -> Output:
        return blocks.joined(
            {
                "nvidia-smi --query-gpu=index,pci.bus_id --format=csv,noheader": Output(named),
                "nvbandwidth -j -t recorded": Output(data.decode(), rc=exit_status),
            }
        )

    return run


def floors(**gb_per_s: float) -> dict[str, Any]:
    """Return the part of a class that asks for these test cases alone."""
    return {"nvbandwidth": {"floors": [{"testcase": name, "gb_per_s": least} for name, least in gb_per_s.items()]}}


ROWS = [
    Row(
        "dcgmi/diag-deployment-error-row-remap-pending-excerpt.txt",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES),
        "GPU 3 must be reset",
        diag(2, ADDRESSES),
    ),
    Row(
        "dcgmi/diag-json-2x-fail-persistence.json",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES),
        "persistence mode: configuration, not the part",
        diag(1, ADDRESSES),
    ),
    Row("dcgmi/diag-json-2x-pass.json", "dcgm_diag", DIAG, "pass", gpus(ADDRESSES), "level 1", diag(1, ADDRESSES)),
    Row(
        "dcgmi/diag-json-2x-pass.json",
        "dcgm_diag",
        DIAG,
        "incomplete",
        gpus(ADDRESSES),
        "a level 3 must have more than the software's tests",
        diag(3, ADDRESSES),
    ),
    Row(
        "dcgmi/diag-json-2x-per-gpu-sm-stress-fail.json",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES[:4]),
        "sm_stress fails on three of four GPUs",
        diag(3, ADDRESSES[:4]),
    ),
    Row(
        "dcgmi/diag-json-4.2.3-r1-gb10-persistence-fail.json",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES[:1]),
        "persistence mode: configuration, not the part",
        diag(1, ADDRESSES[:1], 226),
    ),
    Row(
        "dcgmi/diag-json-4x-8gpu-diagnostic-test-fragment.txt",
        "dcgm_diag",
        DIAG,
        "pass",
        {**gpus(ADDRESSES), "dcgm": {"required": [{"level": 4, "tests": ["diagnostic"]}]}},
        "the one test that the fragment holds; info is cut off at GPU 2, results are not",
        fragment,
    ),
    Row(
        "dcgmi/diag-json-4x-8gpu-diagnostic-test-fragment.txt",
        "dcgm_diag",
        DIAG,
        "incomplete",
        gpus(ADDRESSES),
        "one test of nine",
        fragment,
    ),
    Row(
        "dcgmi/diag-r1-a10g-pass.txt",
        "dcgm_diag",
        DIAG,
        "pass",
        gpus(ADDRESSES[:4]),
        "level 1",
        diag(1, ADDRESSES[:4]),
    ),
    Row(
        "dcgmi/diag-r2-gpu-memory-fail-thermal-excerpt.txt",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES),
        "GPU 0 fails on a continuation line",
        diag(2, ADDRESSES),
    ),
    Row(
        "dcgmi/diag-r3-a10g-targeted-power-fail.txt",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES[:4]),
        "GPU 1 fails under a line that says Pass",
        diag(3, ADDRESSES[:4], 226),
    ),
    Row(
        "dcgmi/diag-r3-h100x8-cuinit-system-not-initialized.txt",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES),
        "fabric manager is down: no GPU can be used, none is shown to be broken",
        diag(3, ADDRESSES, 226),
    ),
    Row(
        "dcgmi/diag-r3-v-v100-pass.txt",
        "dcgm_diag",
        DIAG,
        "pass",
        gpus(V100),
        "the extended utility diagnostic is skipped and not required",
        diag(3, V100),
    ),
    Row(
        "dcgmi/diag-r3-v-v100-pass.txt",
        "dcgm_diag",
        DIAG,
        "incomplete",
        {**gpus(V100), "dcgm": {"eud_required": True}},
        "as a level 4 that requires it",
        diag(4, V100),
    ),
    Row(
        "dcgmi/diag-r4-rtx2060-persistence-fail-memtest-pass.txt",
        "dcgm_diag",
        DIAG,
        "fail",
        gpus(ADDRESSES[:1]),
        "persistence mode fails, and nearly everything was skipped for it",
        diag(4, ADDRESSES[:1], 226),
    ),
    Row(
        "dcgmi/nvlink-errors-json-crc.json",
        "dcgmi_nvlink",
        ("gpu_nvlink_errors",),
        "fail",
        {**gpus(ADDRESSES[:1]), "nvlink": {"links": 2}},
        "12 CRC errors on link 0",
        nvlink_errors,
    ),
    Row(
        "dcgmi/nvlink-errors-json-pass.json",
        "dcgmi_nvlink",
        ("gpu_nvlink_errors",),
        "pass",
        {**gpus(ADDRESSES[:1]), "nvlink": {"links": 2}},
        "both links of the cut-down output are clean",
        nvlink_errors,
    ),
    Row(
        "nvbandwidth/h2d-ce-8gpu-gen4.txt",
        "nvbandwidth",
        BANDWIDTH,
        "fail",
        {**gpus(ADDRESSES), **floors(host_to_device_memcpy_ce=48)},
        "26 GB/s where PCIe Gen5 is expected",
        nvbandwidth(ADDRESSES),
    ),
    Row(
        "nvbandwidth/h2d-ce-8gpu-gen4.txt",
        "nvbandwidth",
        BANDWIDTH,
        "pass",
        {**gpus(ADDRESSES), **floors(host_to_device_memcpy_ce=22)},
        "healthy for PCIe Gen4",
        nvbandwidth(ADDRESSES),
    ),
    Row(
        "nvbandwidth/h2d-bidir-8gpu-gen4.txt",
        "nvbandwidth",
        BANDWIDTH,
        "incomplete",
        {**gpus(ADDRESSES), **floors(host_to_device_memcpy_ce=22)},
        "traffic both ways says nothing of one way",
        nvbandwidth(ADDRESSES),
    ),
    Row(
        "nvbandwidth/h2d-bidir-8gpu-gen4.txt",
        "nvbandwidth",
        BANDWIDTH,
        "pass",
        {**gpus(ADDRESSES), **floors(host_to_device_bidirectional_memcpy_ce=17)},
        "healthy for both ways on PCIe Gen4",
        nvbandwidth(ADDRESSES),
    ),
    Row(
        "nvbandwidth/pattern-mismatch-assert.txt",
        "nvbandwidth",
        BANDWIDTH,
        "fail",
        gpus(ADDRESSES),
        "wrong data between GPUs, and no bandwidth",
        nvbandwidth(ADDRESSES, 1),
    ),
    Row(
        "other/nvbandwidth-json-single-gpu-gen3.json",
        "nvbandwidth",
        BANDWIDTH,
        "fail",
        gpus(ADDRESSES[:1]),
        "12.4 GB/s where PCIe Gen5 is expected",
        nvbandwidth(ADDRESSES[:1]),
    ),
    Row(
        "other/nvbandwidth-json-single-gpu-gen3.json",
        "nvbandwidth",
        BANDWIDTH,
        "pass",
        {**gpus(ADDRESSES[:1]), **floors(host_to_device_memcpy_ce=11, device_to_host_memcpy_ce=11)},
        "healthy for PCIe Gen3",
        nvbandwidth(ADDRESSES[:1]),
    ),
    Row(
        "other/nvbandwidth-json-single-gpu-gen3.json",
        "nvbandwidth",
        BANDWIDTH,
        "incomplete",
        {**gpus(ADDRESSES[:1]), **floors(device_to_device_memcpy_read_ce=335)},
        "a waived test case is not passed",
        nvbandwidth(ADDRESSES[:1]),
    ),
]

NOT_COVERED = {
    "dcgmi/discovery-l-v100.txt": "tells which GPU dcgmi diag means by a number (a test reads it); no check judges it",
    "dcgmi/mndiag-mnubergemm-mixed-errors.log": "diagnostic across GB200 nodes; collectives prove several nodes",
    "other/oci-active-healthcheck-sdc-crashed.log": "log of another program's verdicts, not of a tool",
    "other/oci-passive-healthcheck-pass.log": "log of another program's verdicts, not of a tool",
}
