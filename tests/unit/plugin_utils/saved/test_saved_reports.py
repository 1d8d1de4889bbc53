"""Saved outputs that no check of a host reads: what is sick in them is named, what is cut or unknown never passes."""

from __future__ import annotations

from types import ModuleType

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.saved import (
    array_state,
    gpu_burn_report,
    infiniband_reports,
    lustre_health,
    nccl_debug_log,
    nccl_tests_report,
    nvidia_smi_table,
    perftest_report,
    slurm_reasons,
    switch_counters,
)

KINDS = (
    *(
        array_state,
        gpu_burn_report,
        infiniband_reports,
        lustre_health,
        nccl_debug_log,
        nccl_tests_report,
        nvidia_smi_table,
    ),
    *(perftest_report, slurm_reasons, switch_counters),
)
RANKS = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n"
HEAD = (
    "#       size         count      type   redop    root     "
    "time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
)
ROW = (
    "   134217728      33554432     float     sum      "
    "-1   1000.0  134.22  {bus}      {bad}   1000.0  134.22  {bus}      0\n"
)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {bus}\n"
WHOLE = RANKS + HEAD + ROW.format(bus="251.66", bad=0) + END.format(bus="251.66")
SMI = (
    "+---------+\n| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8  |\n"
    "|   0  NVIDIA H100 80GB HBM3   On  |   00000000:19:00.0 Off |   {ecc} |\n"
    "| N/A  {temp}  P0   70W / 700W |  1MiB / 81559MiB |   0%  Default |\n"
    "|      |      |  Disabled |\n+---------+\n"
)
BURN = (
    "Burning for 60 seconds.\n50.0% proc'd: 70 (900 Gflop/s) - 70 (900 Gflop/s) errors: {errors}  temps: 60 C - 61 C\n"
    "done\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: {verdict}\n"
)
NODE = "NodeName=gpu-1 Arch=x86_64\n   State={state} ThreadsPerCore=1\n   Reason={reason}\n"
QUERY = "# Port extended counters: Lid 7 port 1 (CapMask: 0x5300)\nPortSelect:......................1\n{counter}"
LINKINFO = (
    'CA: gpu-1 HCA-1:\n      0xb88303ffff7f61c4      6    1[  ] ==( {state})==>       3    3[  ] "leaf-1" ({could})\n'
)
PERF = (
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 65536  5000   0.00   {value}   0.17\n"
)


@pytest.mark.parametrize(
    ("kind", "text", "verdict", "said"),
    [
        (gpu_burn_report, BURN.format(errors="0 - 0", verdict="OK"), INCOMPLETE, "a part of what a GPU must do"),
        (gpu_burn_report, BURN.format(errors="0 - 0", verdict="FAULTY"), FAIL, "calls it FAULTY"),
        (gpu_burn_report, BURN.format(errors="0 - 7 (WARNING!)", verdict="OK"), FAIL, "wrong results"),
        (gpu_burn_report, BURN.format(errors="0 - 0 (DIED!)", verdict="OK"), FAIL, "died"),
        (gpu_burn_report, BURN.format(errors="0 - 0", verdict="OK")[:-13], INCOMPLETE, "ends before its verdict"),
        (nccl_tests_report, WHOLE, INCOMPLETE, "what it must be a class says"),
        (nccl_tests_report, RANKS + HEAD + ROW.format(bus="251.66", bad=3), FAIL, "wrong elements"),
        (nccl_tests_report, WHOLE.replace("0 OK", "5 FAILED"), FAIL, "5 values out of bounds"),
        (nccl_tests_report, WHOLE + WHOLE, INCOMPLETE, "2 reports in one"),
        (nccl_tests_report, WHOLE.replace("251.66", "  0.00"), INCOMPLETE, "ranks ran alone"),
        (nccl_tests_report, WHOLE.replace("251.66", "951.66"), INCOMPLETE, "at most twice"),
        (nccl_tests_report, WHOLE + "n1: Test NCCL failure common.cu:1 'remote error'\n", FAIL, "remote error"),
        (nccl_debug_log, "h:1:2 [0] NCCL INFO Using network IB\n", INCOMPLETE, "no fault seen"),
        (nccl_debug_log, "h:1:2 [0] x.cc:1 NCCL WARN something new broke\n", FAIL, "something new broke"),
        (
            nccl_debug_log,
            "h:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.1 with status=12, vendor err 129\n",
            FAIL,
            "vendor error 129",
        ),
        (perftest_report, PERF.format(value="92.4"), INCOMPLETE, "what it must be a class says"),
        (perftest_report, PERF.format(value="0.00"), INCOMPLETE, "nothing was moved"),
        (perftest_report, PERF.format(value="92,4"), INCOMPLETE, "expected numbers"),
        (perftest_report, PERF.format(value="9") + " Completion with error at client\n", FAIL, "Completion with error"),
        (infiniband_reports, LINKINFO.format(state="4X 25.78125 Gbps Active/  LinkUp", could=" "), INCOMPLETE, "class"),
        (
            infiniband_reports,
            LINKINFO.format(state="1X 25.78125 Gbps Active/  LinkUp", could=" Could be 4X"),
            FAIL,
            "Could be 4X",
        ),
        (
            infiniband_reports,
            LINKINFO.format(state="4X 25.78125 Gbps Initialize/  LinkUp", could=" "),
            FAIL,
            "subnet manager",
        ),
        (infiniband_reports, QUERY.format(counter="SymbolErrorCounter:..............0\n"), PASS, ""),
        (infiniband_reports, QUERY.format(counter="SymbolErrorCounter:..............65535\n"), FAIL, "at least 65535"),
        (infiniband_reports, QUERY.format(counter=""), INCOMPLETE, "cut short"),
        (slurm_reasons, NODE.format(state="IDLE", reason="none"), PASS, ""),
        (slurm_reasons, NODE.format(state="IDLE+DRAIN", reason="bad GPU"), FAIL, "bad GPU"),
        (slurm_reasons, NODE.format(state="MIXED*", reason=""), FAIL, "does not answer"),
        (slurm_reasons, NODE.format(state="NEWSTATE", reason=""), INCOMPLETE, "unknown"),
        (slurm_reasons, "NodeName=gpu-1 Arch=x86_64\n", INCOMPLETE, "cut short"),
        (
            array_state,
            "Personalities : [raid1]\nmd0 : active raid1 a[0] b[1]\n 9 blocks [2/2] [UU]\n",
            INCOMPLETE,
            "cut",
        ),
        (
            array_state,
            "Personalities : [raid1]\nmd0 : active raid1 a[0]\n 9 blocks [2/1] [U_]\n\nunused devices: <none>\n",
            FAIL,
            "degraded",
        ),
        (lustre_health, "health_check=healthy\n", PASS, ""),
        (lustre_health, "health_check=LBUG\n", FAIL, "LBUG"),
        (lustre_health, "health_check=\n", INCOMPLETE, "health_check"),
        (lustre_health, "OST0003             : inactive device\n", FAIL, "inactive device"),
        (switch_counters, "Symbol Errors Per Codeword   Codewords\n---- ----\nBIN0  1\n", INCOMPLETE, "1 bins"),
        (nvidia_smi_table, SMI.format(ecc="0", temp="30C"), INCOMPLETE, "leaves out"),
        (nvidia_smi_table, SMI.format(ecc="4", temp="30C"), FAIL, "uncorrectable"),
        (nvidia_smi_table, SMI.format(ecc="0", temp="ERR!"), FAIL, "ERR!"),
        (nvidia_smi_table, "No devices were found\n", FAIL, "No devices"),
    ],
)
def test_saved_report(kind: ModuleType, text: str, verdict: str, said: str) -> None:
    assert kind.recognises(text)
    found = kind.findings(text, None)
    assert worst(finding.verdict for finding in found) == verdict, found
    assert any(said in finding.reason for finding in found if finding.verdict == verdict), found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.NAME)
def test_text_of_another_kind_never_passes(kind: ModuleType) -> None:
    assert not kind.recognises("The quick brown fox\njumps over the lazy dog.\n")
    assert worst(finding.verdict for finding in kind.findings("The quick brown fox\n", None)) != PASS
