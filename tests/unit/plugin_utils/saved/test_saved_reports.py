"""Saved outputs that no check of a host reads: what is sick in them is named, what is cut or unknown never passes."""

from __future__ import annotations

from types import ModuleType

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, INCOMPLETE, PASS, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.link_quality import LIMITS
from ansible_collections.muster.cluster.plugins.plugin_utils.saved import (
    array_state,
    dcgm_health,
    fio_report,
    gpu_burn_report,
    infiniband_reports,
    lustre_health,
    nccl_debug_log,
    nccl_tests_report,
    nvidia_smi_table,
    nvlink_error_counters,
    perftest_report,
    service_states,
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
    *(dcgm_health, fio_report, nvlink_error_counters, service_states),
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
COUNTED = "".join(f"{name}:............0\n" for name in LIMITS)
BAD_NODE = 'Errors for "leaf-1"\n   GUID 0xb8 port 9: [{counted}]\n## Summary: 9 nodes checked, 1 bad nodes found\n'
LINKINFO = (
    'CA: gpu-1 HCA-1:\n      0xb88303ffff7f61c4      6    1[  ] ==( {state})==>       3    3[  ] "leaf-1" ({could})\n'
)
LFS_DF = (
    "UUID                 1K-blocks   Used Available Use% Mounted on\n"
    "scr-OST0000_UUID         30000   1000     29000   4% /scr[OST:0]{letters}\n\n"
    "filesystem_summary:      30000   1000     29000   4% /scr\n"
)
JSON_REPORT = (
    '{{"config": {{"devices": [{{"rank": 0, "group": 0, "hostname": "a", "device": 0, "device_hex": "0x1b"}}]}},'
    ' "results": [{{"size": 1000, "out_of_place": {side}, "in_place": {side}}}],'
    ' "out_of_bounds": {{"count": {bad}, "okay": "{okay}"}}}}'
)
SIDE = '{{"time": 10.0, "alg_bw": 0.1, "bus_bw": 0.1, "nwrong": {wrong}}}'
MODULE_STATUS = (
    "Ethernet0: \n        CMIS State (SW): {sw}\n        Rx loss of signal flag on media lane 1: False\n"
    "        Current module state: ModuleReady\n        Data path state indicator on host lane 1: {path}\n"
    "        Configuration status for the data path of host line 1: {set}\n"
)
FEC = (
    "    IFACE    STATE    FEC_CORR    FEC_UNCORR    FEC_SYMBOL_ERR    FEC_PRE_BER    FEC_POST_BER\n"
    "---------  -------  ----------  ------------  ----------------  -------------  --------------\n"
    "Ethernet0        {state}           9             0                 0       1.20e-08        {ber}\n"
)
PORT_ERRORS = (
    "    IFACE    STATE    RX_ERR    RX_DRP    RX_OVR    TX_ERR    TX_DRP    TX_OVR\n"
    "---------  -------  --------  --------  --------  --------  --------  --------\n"
    "Ethernet0        {state}     {errors}         0         0         0         0         0\n"
)
LINKS = "GPU 0: NVIDIA B300 (UUID: GPU-1)\n" + "".join(
    f"\t Link {link}: Malformed packet Errors: {{malformed}}\n\t Link {link}: Link recovery failed events: 0\n"
    f"\t Link {link}: Symbol Errors: {{symbols}}\n\t Link {link}: FEC Errors - 0: 36140749276\n"
    f"\t Link {link}: Total link recovery events: 2\n"
    for link in range(2)
)
REPLAYS = "GPU 3: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: Replay Errors: {count}\n\t Link 0: CRC Errors: 0\n"
HEALTH = (
    "+------+------+\n| Health Monitor Report      |\n+======+======+\n| Overall Health   | {overall}    |\n"
    "| GPU              |            |\n| -> 4             | {overall}    |\n+------+------+\n"
)
UNITS = (
    "  UNIT                  LOAD   ACTIVE SUB    DESCRIPTION\n\u25cf {unit} loaded {state}   Some service\n\n"
    "LOAD   = Reflects whether the unit definition was properly loaded.\n1 loaded units listed.\n"
)
STATUS = (
    "\u25cf nvidia-imex.service - NVIDIA IMEX service\n"
    "     Loaded: loaded (/lib/systemd/system/nvidia-imex.service; enabled)\n     Active: {state} since Sat; 3min ago\n"
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
        # A count of 32 bits that ran over.
        (gpu_burn_report, BURN.format(errors="0 - -524288000  (WARNING!)", verdict="OK"), FAIL, "wrong results"),
        (gpu_burn_report, BURN.format(errors="-7  (DIED!)- 0 ", verdict="OK"), FAIL, "died"),
        (
            gpu_burn_report,
            '10.4%  proc\'d: 446 (74 Gflop/s)   errors: 0   temps: 60 C\nFailure during compute: Error in "x": 999\n',
            FAIL,
            "Failure during compute",
        ),
        (
            gpu_burn_report,
            "Burning for 60 seconds.\n  what():  Error (gpu_burn-drv.cpp:298): system not yet initialized\n",
            FAIL,
            "system not yet initialized",
        ),
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
        (
            nccl_tests_report,
            JSON_REPORT.format(side=SIDE.format(wrong=0), bad=0, okay="true"),
            INCOMPLETE,
            "what it must be a class says",
        ),
        (
            nccl_tests_report,
            JSON_REPORT.format(side=SIDE.format(wrong=4), bad=0, okay="true"),
            FAIL,
            "wrong elements at 1 sizes",
        ),
        (
            nccl_tests_report,
            JSON_REPORT.format(side=SIDE.format(wrong=0), bad=3, okay="false"),
            FAIL,
            "wrong elements at 1 sizes",
        ),
        (nccl_tests_report, RANKS + HEAD + " .. n1 pid 4: Test failure common.cu:401\n", FAIL, "Test failure"),
        (nccl_debug_log, "[rank3]:[E ProcessGroupNCCL.cpp:1370] Heartbeat monitor timed out!\n", FAIL, "watchdog"),
        (
            nccl_debug_log,
            "[E ProcessGroupNCCL.cpp:1] Received a dump signal due to a collective timeout from rank 3\n",
            FAIL,
            "watchdog",
        ),
        (
            nccl_debug_log,
            "[E ProcessGroupNCCL.cpp:1] Process group watchdog thread terminated with exception: CUDA error: lost\n",
            FAIL,
            "CUDA error: lost",
        ),
        (
            nccl_debug_log,
            "what():  [PG ID 0 Rank 3] NCCL watchdog thread terminated with exception: x\nDistBackendError\n",
            FAIL,
            "PyTorch's watchdog ended: x",
        ),
        (
            nccl_debug_log,
            "n:1:2 [0] NCCL INFO Using network IB\n[n:0:1 - context.c:716] ERROR sharp_coll_init failed: (-53)\n",
            INCOMPLETE,
            "no fault seen",
        ),
        (perftest_report, "Couldn't connect to 10.0.0.3:18515\n", FAIL, "Couldn't connect"),
        (perftest_report, "Port number 1 state is Down\n Couldn't set the link layer\n", FAIL, "state is Down"),
        (perftest_report, PERF.format(value="92.4") + " Something went wrong: error 3\n", INCOMPLETE, "it says"),
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
        (infiniband_reports, QUERY.format(counter=COUNTED), PASS, ""),
        (infiniband_reports, QUERY.format(counter="SymbolErrorCounter:..............0\n"), INCOMPLETE, "not told"),
        (
            infiniband_reports,
            QUERY.format(counter=COUNTED + "PortXmitDiscards:..4711\n"),
            PASS,
            "PortXmitDiscards 4711",
        ),
        (infiniband_reports, QUERY.format(counter=COUNTED + "PortXmitWait:.......4711\n"), PASS, ""),
        (infiniband_reports, BAD_NODE.format(counted="PortXmitDiscards == 4711"), PASS, "PortXmitDiscards 4711"),
        (infiniband_reports, BAD_NODE.format(counted="PortUncorrectableErrors == 4711"), FAIL, "Uncorrectable"),
        (infiniband_reports, QUERY.format(counter="SymbolErrorCounter:..............65535\n"), FAIL, "at least 65535"),
        (infiniband_reports, QUERY.format(counter=""), INCOMPLETE, "cut short"),
        (slurm_reasons, NODE.format(state="IDLE", reason="none"), PASS, ""),
        (slurm_reasons, NODE.format(state="IDLE+DRAIN", reason="bad GPU"), FAIL, "bad GPU"),
        (slurm_reasons, NODE.format(state="MIXED*", reason=""), FAIL, "does not answer"),
        (slurm_reasons, NODE.format(state="IDLE", reason="Xid 79"), PASS, "IDLE: Xid 79"),
        (slurm_reasons, "NodeName=gpu-1 CPUTot=9 State=IDLE Reason=Xid 79 [root@2026-11-20]\n", PASS, "IDLE: Xid 79"),
        (slurm_reasons, "PARTITION AVAIL NODES STATE NODELIST\nbatch* up 14 idle~ gpu-[1-9]\n", INCOMPLETE, "idle~"),
        (slurm_reasons, "PARTITION AVAIL NODES STATE NODELIST\nbatch* up 14 alloc@ gpu-[1-9]\n", INCOMPLETE, "alloc@"),
        (slurm_reasons, "PARTITION AVAIL NODES STATE NODELIST\nbatch* up 14 idle- gpu-[1-9]\n", PASS, ""),
        (
            slurm_reasons,
            "Sun Nov 29 10:00:00 2026\nNODELIST NODES PARTITION STATE CPUS REASON\ngpu-7 1 b drained 192 Xid 79\n",
            FAIL,
            "Xid 79",
        ),
        (slurm_reasons, "[2026-11-20T08:00:00.123] error: Nodes gpu-07 not responding\n", FAIL, "does not answer"),
        (
            slurm_reasons,
            "[2026-11-20T08:00:00.123] error: Setting node gpu-07 state to INVAL with reason:gres/gpu count low\n"
            "[2026-11-20T08:00:00.124] drain_nodes: node gpu-07 state set to DRAIN\n",
            FAIL,
            "out of service",
        ),
        (
            slurm_reasons,
            '{"nodes": [{"name": "n1", "state": ["IDLE"], "gres": "gpu:8", "gres_drained": "gpu:1", "cpus": 9,'
            ' "next_state_after_reboot": []}]}',
            FAIL,
            "drained of gpu:1",
        ),
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
        (
            array_state,
            "Personalities : [raid0]\nmd0 : broken raid0 a[0] b[1]\n 9 blocks\n\nunused devices: <none>\n",
            FAIL,
            "a member went away",
        ),
        (
            array_state,
            "Personalities :\nmd0 : active (read-only) raid1 a[0] b[1]\n 9 blocks [2/2] [UU]\nunused devices:\n",
            PASS,
            "read-only",
        ),
        (
            lustre_health,
            "lfs check: error checking scr-OST0001-osc-ff9c: shut down (108)\nscr-MDT0000-mdc-ff9c active.\n",
            FAIL,
            "did not answer",
        ),
        (lustre_health, "osc.scr-OST0001-osc-ff9c.state=\ncurrent_state: DISCONN\n", FAIL, "not connected"),
        (lustre_health, "osc.scr-OST0001-osc-ff9c.state=\ncurrent_state: FULL\n", PASS, ""),
        (lustre_health, LFS_DF.format(letters=""), PASS, ""),
        (lustre_health, LFS_DF.format(letters=" f"), PASS, ""),
        (lustre_health, LFS_DF.format(letters=" D"), PASS, "degraded"),
        (lustre_health, LFS_DF.format(letters=" DR"), FAIL, "read-only"),
        (lustre_health, "health_check=healthy\n", PASS, ""),
        (lustre_health, "health_check=LBUG\n", FAIL, "LBUG"),
        (lustre_health, "health_check=\n", INCOMPLETE, "health_check"),
        (lustre_health, "OST0003             : inactive device\n", FAIL, "inactive device"),
        (switch_counters, "Symbol Errors Per Codeword   Codewords\n---- ----\nBIN0  1\n", INCOMPLETE, "1 bins"),
        (switch_counters, MODULE_STATUS.format(sw="READY", path="DataPathActivated", set="ConfigSuccess"), PASS, ""),
        (
            switch_counters,
            MODULE_STATUS.format(sw="FAILED", path="DataPathActivated", set="ConfigSuccess"),
            FAIL,
            "could not set it up",
        ),
        (
            switch_counters,
            MODULE_STATUS.format(sw="READY", path="DataPathDeactivated", set="ConfigSuccess"),
            INCOMPLETE,
            "DataPathDeactivated",
        ),
        (
            switch_counters,
            MODULE_STATUS.format(sw="READY", path="DataPathActivated", set="ConfigRejectedInvalidSI"),
            INCOMPLETE,
            "ConfigRejectedInvalidSI",
        ),
        (switch_counters, FEC.format(state="U", ber="0.00e+00"), PASS, ""),
        (switch_counters, FEC.format(state="U", ber="3.00e-09"), PASS, "3e-09 is left after FEC"),
        (switch_counters, FEC.format(state="D", ber="0.00e+00"), INCOMPLETE, "down or switched off"),
        (switch_counters, PORT_ERRORS.format(state="U", errors="0"), PASS, ""),
        (switch_counters, PORT_ERRORS.format(state="U", errors="4,711"), FAIL, "RX_ERR 4711"),
        (switch_counters, PORT_ERRORS.format(state="D", errors="0"), INCOMPLETE, "down or switched off"),
        (nvidia_smi_table, SMI.format(ecc="0", temp="30C"), INCOMPLETE, "leaves out"),
        (nvidia_smi_table, SMI.format(ecc="4", temp="30C"), FAIL, "uncorrectable"),
        (nvidia_smi_table, SMI.format(ecc="0", temp="ERR!"), FAIL, "ERR!"),
        (nvidia_smi_table, SMI.format(ecc="4", temp="30C").replace("00000000:", "0000:"), FAIL, "uncorrectable"),
        # Rows that people cut out of the table.
        (nvidia_smi_table, SMI.format(ecc="0", temp="ERR!").split("\n", 2)[2], FAIL, "ERR!"),
        (nvidia_smi_table, SMI.format(ecc="0", temp="30C").split("\n", 2)[2], INCOMPLETE, "cut short"),
        (nvidia_smi_table, "No devices were found\n", FAIL, "No devices"),
        (nvidia_smi_table, SMI.format(ecc="GPU requires reset", temp="30C"), FAIL, "requires reset"),
        (nvlink_error_counters, LINKS.format(malformed=0, symbols=0), INCOMPLETE, "within the limit"),
        (nvlink_error_counters, LINKS.format(malformed=1, symbols=0), FAIL, "Malformed packet Errors 1"),
        (nvlink_error_counters, LINKS.format(malformed=0, symbols=2), INCOMPLETE, "within the limit"),
        (nvlink_error_counters, LINKS.format(malformed=0, symbols=3), FAIL, "link 1 Symbol Errors 3"),
        (nvlink_error_counters, LINKS.format(malformed="N/A", symbols=0), INCOMPLETE, "could not be read"),
        (nvlink_error_counters, REPLAYS.format(count=4012), FAIL, "link 0 Replay Errors 4012"),
        (nvlink_error_counters, REPLAYS.format(count=0), INCOMPLETE, "no fault seen"),
        (service_states, UNITS.format(unit="nvidia-fabricmanager.service", state="failed failed"), FAIL, "failed"),
        (service_states, UNITS.format(unit="scratch.mount", state="failed failed"), FAIL, "failed"),
        (service_states, UNITS.format(unit="slurmd.service", state="active running"), INCOMPLETE, "no fault seen"),
        (service_states, UNITS.format(unit="slurmd.service", state="activating auto-restart"), INCOMPLETE, "neither"),
        # Of what no job needs a person has to say whether it matters.
        (service_states, UNITS.format(unit="motd-news.service", state="failed failed"), INCOMPLETE, "failed"),
        (service_states, "0 loaded units listed.\n", INCOMPLETE, "no fault seen"),
        (service_states, STATUS.format(state="failed (Result: exit-code)"), FAIL, "Result: exit-code"),
        (service_states, STATUS.format(state="active (running)"), INCOMPLETE, "no fault seen"),
        (dcgm_health, HEALTH.format(overall="Healthy"), INCOMPLETE, "no fault seen"),
        (dcgm_health, HEALTH.format(overall="Failure"), FAIL, "4 Failure"),
        (dcgm_health, HEALTH.format(overall="Warning"), INCOMPLETE, "4 Warning"),
        (
            dcgm_health,
            '{"body": {"Overall Health": {"value": "Failure"}, "GPU": {"children": {"4": {"value": "Failure"}}}}}',
            FAIL,
            "4 Failure",
        ),
        (dcgm_health, '{"body": {"Overall Health": {"value": "Heal', INCOMPLETE, "cannot be read"),
    ],
)
def test_saved_report(kind: ModuleType, text: str, verdict: str, said: str) -> None:
    assert kind.recognises(text)
    found = kind.findings(text, None)
    assert worst(finding.verdict for finding in found) == verdict, found
    assert any(said in finding.reason for finding in found if finding.verdict == verdict), found


LINK = LINKINFO.format(state="4X 25.78125 Gbps Active/  LinkUp", could=" ")
SPOILT = BAD_NODE.format(counted="SymbolErrorCounter == 4711")
IDLE = "PARTITION AVAIL NODES STATE NODELIST\nbatch* up 14 {state} gpu-[1-9]\n"
REASONS = "REASON               USER      TIMESTAMP           NODELIST\nXid 79  root  2026-11-20T08:00:00 gpu-7\n"
DETAIL = "/dev/md1:\n  Version : 1.2\n  State : clean\n"
SICK_MODULE = MODULE_STATUS.format(sw="FAILED", path="DataPathActivated", set="ConfigSuccess")


@pytest.mark.parametrize(
    ("kind", "fine", "sick"),
    [
        (infiniband_reports, LINK, SPOILT),
        (infiniband_reports, LINK, QUERY.format(counter="SymbolErrorCounter:..............65535\n")),
        (slurm_reasons, NODE.format(state="IDLE", reason="none"), REASONS),
        (slurm_reasons, NODE.format(state="IDLE", reason="none"), IDLE.format(state="drain")),
        (slurm_reasons, IDLE.format(state="idle"), NODE.format(state="DOWN*", reason="none")),
        (switch_counters, FEC.format(state="U", ber="0.00e+00"), PORT_ERRORS.format(state="U", errors="4,711")),
        (switch_counters, FEC.format(state="U", ber="0.00e+00"), SICK_MODULE),
        (
            array_state,
            DETAIL,
            "Personalities :\nmd0 : broken raid0 a[0]\n 9\n",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_what_one_command_says_does_not_hide_what_another_says(kind, fine: str, sick: str, first: bool) -> None:
    text = f"{sick}\n{fine}" if first else f"{fine}\n{sick}"
    assert kind.recognises(text)
    assert worst(finding.verdict for finding in kind.findings(text, None)) == FAIL


@pytest.mark.parametrize(
    ("kind", "text", "verdict", "said"),
    [
        (slurm_reasons, "REASON               NODELIST\nLow RealMemory       gpu-[1-3]\n", FAIL, "Low RealMemory"),
        (slurm_reasons, "srun: error: Task launch for 7.0 failed on node gpu-3: Job prolog failed\n", FAIL, "prolog"),
        (slurm_reasons, "salloc: Prolog failure on node gpu-3\n", FAIL, "Prolog failure"),
        (slurm_reasons, "slurmstepd: error: Prolog hung on node gpu-3\n", FAIL, "Prolog hung"),
        (slurm_reasons, "srun: error: Node failure on gpu-3\n", FAIL, "Node failure"),
        (
            slurm_reasons,
            "[2026-11-20T08:00:01.002] [7.0] error: *** STEP 7.0 STEPD TERMINATED ON gpu-3 AT 2026-11-20T08:00:01 "
            "DUE TO JOB NOT ENDING WITH SIGNALS ***\n",
            FAIL,
            "do not end",
        ),
        (slurm_reasons, "error: Node configuration differs from hardware: CPUs=192:96(hw)\n", FAIL, "CPUs=192:96"),
        (slurm_reasons, "error: Node configuration differs from hardware: CPUs=96:192(hw)\n", INCOMPLETE, "CPUs=96"),
        (infiniband_reports, " GUID 0xb8 port ALL: [LinkDownedCounter == 250 (250.000)]\n", FAIL, "250"),
        (infiniband_reports, " GUID 0xb8 port ALL: [PortXmitWait == 250 (250.000)]\n", INCOMPLETE, "cut short"),
        (nccl_debug_log, "n1:7:8 [0] NCCL INFO x\nCUDA error: uncorrectable NVLink error\n", FAIL, "NVLink error"),
        (fio_report, "fio: io_u error on file /dev/nvme1n1: Input/output error: read offset=0\n", FAIL, "Input/output"),
        (fio_report, "one: (groupid=0, jobs=1): err= 5 (file:io_u.c:1): pid=7: Fri\n", FAIL, "ended with error 5"),
        (fio_report, "one: (groupid=0, jobs=1): err= 0: pid=7: Fri\n  read: IOPS=9\n", INCOMPLETE, "no error met"),
        (fio_report, "fio: pid=7, err=28/file:filesetup.c:2, func=write, error=No space left\n", FAIL, "No space left"),
        (
            fio_report,
            "verify: bad magic header 0, wanted acca at file /dev/md0 offset 0\n",
            FAIL,
            "not what was written",
        ),
    ],
)
def test_lines_of_a_tool_without_the_rest_of_its_report_are_read(kind, text: str, verdict: str, said: str) -> None:
    assert kind.recognises(text)
    found = kind.findings(text, None)
    assert worst(finding.verdict for finding in found) == verdict
    assert any(said in finding.reason for finding in found)


def test_warning_of_nccl_is_no_row_of_nodes() -> None:
    assert not slurm_reasons.recognises("NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0\n")


def test_sum_of_ports_is_no_port_where_they_follow() -> None:
    text = BAD_NODE.format(counted="LinkDownedCounter == 250 (250)")
    text = text.replace("   GUID", "   GUID 0xb8 port ALL: [LinkDownedCounter == 250 (250)]\n   GUID")
    assert [finding.subject for finding in infiniband_reports.findings(text, None)] == ["leaf-1 port 9"]


def test_errors_of_ports_count_beside_the_state_of_their_links() -> None:
    (line,) = [line for line in LINK.splitlines() if "==(" in line]
    text = SPOILT.replace("## Summary", f"   Link info: {line}\n## Summary")
    found = infiniband_reports.findings(text, None)
    assert [finding.verdict for finding in found] == [FAIL] and "SymbolErrorCounter 4711" in found[0].reason


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.NAME)
def test_text_of_another_kind_never_passes(kind: ModuleType) -> None:
    assert not kind.recognises("The quick brown fox\njumps over the lazy dog.\n")
    assert worst(finding.verdict for finding in kind.findings("The quick brown fox\n", None)) != PASS
