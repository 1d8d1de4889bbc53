"""What the outputs mean that people save and no check of a host reads: written here, in the form of each tool.

The forms are those of the tools' sources (nccl-tests' util.cu, perftest's perftest_parameters.h, infiniband-diags, md
in the kernel's /proc/mdstat, Lustre's health_check, sinfo); names and values are our own.
"""

from __future__ import annotations

from dataclasses import dataclass

from .field_meaning import NOT_FAIL, NOT_PASS, SICK


@dataclass(frozen=True)
class Saved:
    """A text that module ``name`` of plugin_utils/saved judges: healthy, and sick by each of ``faults`` (old, new)."""

    name: str
    text: str
    faults: tuple[tuple[str, str, frozenset[str]], ...]
    # What changes nothing of what is said.
    odd: tuple[tuple[str, str, frozenset[str]], ...] = ()


_NCCL_TESTS = """\
# nThread 1 nGpus 1 minBytes 8589934592 maxBytes 8589934592 step: 2(factor) iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     gpu-01 device  0 [0000:0b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4712 on     gpu-01 device  1 [0000:0c:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  8589934592    2147483648     float     sum      -1    31450  273.13  478.0      0    31460  273.04  477.8      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 477.9
#
"""

_PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 4\t\tTransport type : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1000             392.11             391.84             0.747374
---------------------------------------------------------------------------------------
"""

_ERRORS = """\
Errors for "gpu-01 mlx5_0"
   GUID 0x1070fd0300aa0001 port 1: [PortXmitWait == 12]
## Summary: 40 nodes checked, 1 bad nodes found
##          80 ports checked, 1 ports have errors beyond threshold
"""

_MDSTAT = """\
Personalities : [raid0] [raid1]
md0 : active raid1 nvme9n1p2[1] nvme8n1p2[0]
      937560064 blocks super 1.2 [2/2] [UU]

unused devices: <none>
"""

_SINFO = """\
REASON               USER      TIMESTAMP           NODELIST
"""

_BURN = """\
Burning for 60 seconds.
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000001)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000002)
100.0%  proc'd: 210 (901 Gflop/s) - 210 (899 Gflop/s)   errors: 0 - 0   temps: 60 C - 61 C
done

Tested 2 GPUs:
	GPU 0: OK
	GPU 1: OK
"""
_SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:0B:00.0 Off |                    0 |
| N/A   32C    P0             70W /  700W |       1MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""

_FIO = """\
read: (g=0): rw=read, bs=(R) 128KiB-128KiB, (W) 128KiB-128KiB, (T) 128KiB-128KiB, ioengine=libaio, iodepth=256
fio-3.36
Starting 1 process

read: (groupid=0, jobs=1): err= 0: pid=4711: Fri Nov 20 08:00:00 2026
  read: IOPS=50.0k, BW=6250MiB/s (6554MB/s)(10.0GiB/1638msec)
"""
_LINK_ERRORS = """\
GPU 0: NVIDIA B200 (UUID: GPU-00000000-0000-0000-0000-000000000001)
\t Link 0: Malformed packet Errors: 0
\t Link 0: Buffer overrun Errors: 0
\t Link 0: Link recovery failed events: 0
\t Link 0: Effective Errors: 0
\t Link 1: Malformed packet Errors: 0
\t Link 1: Buffer overrun Errors: 0
\t Link 1: Link recovery failed events: 0
\t Link 1: Effective Errors: 0
"""
_WATCHES = """\
+---------------------------+----------------------------------------------------------+
| Health Monitor Report                                                                |
+===========================+==========================================================+
| Overall Health            | Healthy                                                  |
+---------------------------+----------------------------------------------------------+
"""

_LUSTRE = "health_check=healthy\n"

TABLE: tuple[Saved, ...] = (
    Saved(
        "nccl_tests_report",
        _NCCL_TESTS,
        (
            ("478.0      0 ", "478.0      7 ", SICK),
            ("477.8      0", "477.8     12", SICK),
            ("values : 0 OK", "values : 3 FAILED", SICK),
            ("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 477.9\n#\n", "", NOT_PASS),
            ("478.0      0 ", "0.00      0 ", NOT_PASS),
            ("# Out of", "gpu-01: Test NCCL failure all_reduce.cu:45 'unhandled system error'\n# Out of", SICK),
            ("  8589934592    2147483648", "#  8589934592    2147483648", NOT_PASS),
            ("478.0 ", "478,0 ", NOT_PASS),
            ("478.0 ", "-478.0 ", NOT_PASS),
            ("478.0 ", "nan ", NOT_PASS),
        ),
        (("# Using devices", "# Using  devices", NOT_FAIL), ("     sum ", "         ", NOT_FAIL)),
    ),
    Saved(
        "perftest_report",
        _PERFTEST,
        (
            ("391.84", "0.00", NOT_PASS),
            ("391.84", "nan", NOT_PASS),
            ("391.84", "-391.84", NOT_PASS),
            (" 65536 ", " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n 65536 ", SICK),
            (" 65536      1000             392.11             391.84             0.747374\n", "", NOT_PASS),
            ("---\n #bytes", "---\nCouldn't connect to 10.0.0.2:18515\n #bytes", SICK),
            (" 65536 ", " Checking the data: failed\n 65536 ", NOT_PASS),
        ),
        (("391.84", "391,84", NOT_FAIL),),
    ),
    Saved(
        "infiniband_reports",
        _ERRORS,
        (
            ("[PortXmitWait == 12]", "[SymbolErrorCounter == 65535] [LinkDownedCounter == 12]", SICK),
            ("[PortXmitWait == 12]", "[LocalLinkIntegrityErrors == 900]", NOT_PASS),
            ("[PortXmitWait == 12]", "[PortRcvErrors == 900]", NOT_PASS),
            ("[PortXmitWait == 12]", "[PortUncorrectableErrors == 900]", SICK),
            ("## Summary", "## 7 PMA query failures\n## Summary", NOT_PASS),
        ),
        (("[PortXmitWait == 12]", "[PortXmitWait == 99999]", NOT_FAIL),),
    ),
    Saved(
        "array_state",
        _MDSTAT,
        (
            ("[2/2] [UU]", "[2/1] [U_]", SICK),
            ("[2/2] [UU]", "[2/1] [_U]", SICK),
            ("md0 : active", "md0 : inactive", SICK),
            ("md0 : active", "md0 : broken", SICK),
            ("[2/2] [UU]", "[2/2] [U_]", NOT_PASS),
            ("[2/2] [UU]", "[2/1] [UU]", NOT_PASS),
        ),
        (("[2/2] [UU]\n", "[2/2] [UU]\n      bitmap: 1/7 pages [4KB], 65536KB chunk\n", NOT_FAIL),),
    ),
    Saved(
        "lustre_health",
        _LUSTRE,
        (
            ("healthy", "NOT HEALTHY", SICK),
            ("healthy", "LBUG", SICK),
            ("healthy", "device work-OST0001 reported unhealthy\nNOT HEALTHY", SICK),
            ("healthy", "gesund", NOT_PASS),
            ("healthy", "", NOT_PASS),
        ),
    ),
    Saved(
        "slurm_reasons",
        _SINFO,
        (
            ("NODELIST\n", "NODELIST\nGPU fell off the bus root      2026-11-20T08:00:00 gpu-07\n", SICK),
            ("NODELIST\n", "NODELIST\nNot responding       slurm     2026-11-20T08:00:00 gpu-[07-09]\n", SICK),
            ("NODELIST\n", "NODELIST\nKill task failed     root      2026-11-20T08:00:00 gpu-07\n", SICK),
            ("REASON", "salloc: Prolog failure on node gpu-07\nREASON", SICK),
            ("REASON", "srun: error: Node failure on gpu-07\nREASON", SICK),
        ),
    ),
    Saved(
        "gpu_burn_report",
        _BURN,
        (
            ("GPU 1: OK", "GPU 1: FAULTY", SICK),
            ("errors: 0 - 0", "errors: 0 - 31", SICK),
            ("errors: 0 - 0", "errors: 0 (DIED!)- 0", SICK),
            ("errors: 0 - 0", "errors: 0 - -524288000  (WARNING!)", SICK),
            ("\tGPU 1: OK\n", "", NOT_PASS),
        ),
    ),
    Saved(
        "fio_report",
        _FIO,
        (
            ("err= 0", "err= 5 (file:io_u.c:1896, func=io_u error, error=Input/output error)", SICK),
            ("read: (g", "fio: io_u error on file /dev/nvme0n1: Input/output error: read offset=0\nread: (g", SICK),
            ("err= 0", "err= ?", NOT_PASS),
        ),
    ),
    Saved(
        "nvidia_smi_table",
        _SMI,
        (
            (" 32C ", " ERR! ", SICK),
            ("70W /  700W", "ERR! / ERR!", SICK),
            ("|                    0 |", "|                    3 |", SICK),
            ("|                    0 |", "|                 ERR! |", NOT_PASS),
            ("+---", "Unable to determine the device handle for GPU0000:8C:00.0: GPU is lost.\n+---", SICK),
        ),
    ),
    Saved(
        "nvlink_error_counters",
        _LINK_ERRORS,
        (
            ("failed events: 0", "failed events: 1", SICK),
            ("packet Errors: 0", "packet Errors: 3", SICK),
            ("overrun Errors: 0", "overrun Errors: 5", SICK),
            ("Effective Errors: 0", "Effective Errors: 88012", SICK),
            ("Effective Errors: 0", "Effective Errors: Unknown Error", NOT_PASS),
        ),
        (
            ("Effective Errors: 0", "Effective Errors: 4", NOT_FAIL),
            ("0: Buffer", "0: FEC Errors - 0: 99\n\t Link 0: Buffer", NOT_FAIL),
        ),
    ),
    Saved(
        "dcgm_health",
        _WATCHES,
        (
            ("Healthy", "Failure", SICK),
            ("| Overall Health            | Healthy", "| Overall Health            | Warning", NOT_PASS),
            ("| Overall Health            | Healthy", "| Overall Health            |        ", NOT_PASS),
        ),
    ),
)
