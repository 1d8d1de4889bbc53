"""What lines of logs mean, by the driver that writes them: a fault, a remark, or nothing.

The wordings are those of the drivers' sources (NVRM, nvidia-nvswitch, knvlink, mlx5_core, nvme, EDAC, AER, libata, md)
with values of our own; what must follow is what the driver means by the line.
"""

from __future__ import annotations

from .field_meaning import HEALTHY, NOT_FAIL, NOT_PASS, SICK, Told

_AT = "2026-11-20T08:00:00+0000 gpu-01 kernel: "
_GPU, _OTHER_GPU, _NIC = "0000:0b:00", "0000:8c:00", "0000:4d:00.0"

_CHECKS = (
    *("gpu_log", "xid", "sxid", "nic_log", "nvme_log", "machine_check", "pcie_errors", "filesystem_log"),
    *("kernel_crash", "mount_log", "oom_log", "program_crash"),
)

# Xids by what NVIDIA's catalogue asks for: a reset, a reboot, a replacement; the application alone; nothing.
_XID_SICK = (48, 62, 64, 74, 79, 92, 95, 109, 110, 119, 120, 136, 140, 143, 149, 154)
_XID_APPLICATION = (13, 31, 43, 45)

_FAULTS = (
    *(f"NVRM: Xid (PCI:{_GPU}): {xid}, pid='<unknown>', name=<unknown>, text of it" for xid in _XID_SICK[:5]),
    f"NVRM: Xid (PCI:{_GPU}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    f"NVRM: Xid (PCI:{_GPU}): 79, GPU has fallen off the bus.",
    f"NVRM: Xid (PCI:{_GPU}): 119, pid=4711, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
    " Expected function 76 (GSP_RM_CONTROL) (0x20800a4c 0x4).",
    f"NVRM: GPU {_GPU}.0: GPU has fallen off the bus.",
    f"NVRM: GPU at PCI:{_GPU}: GPU-6b82c05d-9a05-a2c2-8cfa-9056dfb0fa06 GPU has fallen off the bus.",
    f"NVRM: GPU {_GPU}.0: RmInitAdapter failed! (0x62:0xffff:2477)",
    "NVRM: _kgspIsHeartbeatTimedOut: GSP RM heartbeat timed out for GPU0",
    "NVRM: nvAssertFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x0000005B)"
    " returned from rmStatus @ kernel_gsp.c:1",
    "NVRM: GspRmAlloc failed: hClient=0xc1d00001; hParent=0xc1d00001; status=0x0000005b",
    "NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer0's postRxDetLinkMask failed!",
    "nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 29 LTSSM Fault Up",
    f"mlx5_core {_NIC}: poll_health:840:(pid 0): Fatal error 1 detected",
    f"mlx5_core {_NIC}: mlx5_crdump_collect:51:(pid 1): crdump: failed to lock gw status -110",
    f"mlx5_core {_NIC}: print_health_info:425:(pid 0): Health issue observed, firmware internal error,"
    " severity(3) ERROR:",
    f"mlx5_core {_NIC}: temp_warn:188:(pid 0): High temperature on sensors with bit set 0x0 0x1",
    f"mlx5_core {_NIC}: mlx5_load_one:1372:(pid 1): mlx5_load failed with error code -110",
    f"mlx5_core: probe of {_NIC} failed with error -12",
    f"mlx5_core {_NIC}: Port module event[error]: module 0, Cable error, High Temperature",
    f"mlx5_core {_NIC}: wait_func:1121:(pid 1): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource",
    "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
    "nvme nvme1: Removing after probe failure status: -19",
    "nvme1n1: Write(0x1) @ LBA 8, 8 blocks, Attempted Write to Read Only Range (sct 0x1 / sc 0x82) DNR ",
    "LustreError: 4711:0:(ldlm_lock.c:2:ldlm_lock_put()) ASSERTION( lock->l_refc > 0 ) failed: ",
    f"mlx5_core {_NIC}: mlx5_pci_init:907:(pid 1): error requesting BARs, aborting",
    "blk_update_request: critical medium error, dev nvme1n1, sector 12345 op 0x0:(READ) flags 0x80700",
    "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x0)",
    "EXT4-fs error (device md0): ext4_find_entry:1455: inode #2: comm systemd: reading directory lblock 0",
    "XFS (md127): Corruption detected. Unmount and run xfs_repair",
    "BUG: unable to handle page fault for address: ffffffffc0000000",
    "Kernel panic - not syncing: Fatal exception",
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "invalid opcode: 0000 [#1] PREEMPT SMP NOPTI",
    "MCE: Killing python3:4711 due to hardware memory corruption fault at 7f0a",
    "[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[Over|UE|MiscV|AddrV|PCC|TCC|SyndV|UECC|-|-|-]: 0xfe2a000000010135",
    "thermal thermal_zone0: acpitz: critical temperature reached, shutting down",
    "Aborting journal on device md0-8.",
    "EXT4-fs (md0): error count since last fsck: 12",
    "XFS (md127): Metadata CRC error detected at xfs_agf_read_verify+0xd0/0xf0 [xfs], xfs_agf block 0x1",
    "BTRFS: error (device sdb) in btrfs_commit_transaction:2314: errno=-5 IO failure",
    "sd 0:0:0:0: [sda] tag#12 Sense Key : Medium Error [current]",
    "md/raid1:md127: active with 1 out of 2 mirrors",
    "nvidia: disagrees about version of symbol module_layout",
    f"NVRM: GPU {_GPU}.0: GPU does not have the necessary power cables connected.",
    "NVRM: kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 96.00.74.00.01",
    f"pcieport {_GPU}.0: pciehp: Slot(7): Card not present",
    f"pciehp {_GPU}.0:pcie24: slot(7): Link Down event",
    f"pciehp {_GPU}.0:pcie004: Slot(7): Card not present",
    "NVRM: GPU6 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected. kbusSendSysmembarSingle failed.",
    "NVRM: GPU6 kbusSendSysmembarSingle_GH100: - timeout error waiting for startToken = 0x3 cnt=24105122",
    "NVRM: GPU0 _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.",
    f"NVRM: Attempting to remove device {_GPU}.0 with non-zero usage count!",
    "NVRM: Attempting to remove minor device 0 with non-zero usage count!",
    f"nvidia {_GPU}.0: AER: aer_uncor_severity: 0x00462030",
    f"pci {_GPU}.0: unknown header type 7f, ignoring device",
    f"nvidia {_GPU}.0: Refused to change power state, currently in D3",
    "watchdog: BUG: soft lockup - CPU#17 stuck for 26s! [python3:4711]",
    f"pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: {_GPU}.0",
    f"nvidia {_GPU}.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
)

# The driver itself calls it no fault, or ended it.
_NO_FAULTS = (
    *(f"NVRM: Xid (PCI:{_GPU}): {xid}, pid=4711, name=python, text of it" for xid in _XID_APPLICATION),
    f"NVRM: Xid (PCI:{_GPU}): 145, RLW_REMAP Nonfatal XC0 i0 Link 08 (0x00000004 0x00000000 0x00000000 0x00000000)",
    f"NVRM: Xid (PCI:{_GPU}): 149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 08 (0x000000c6 0x00000000 0x00000000 0x0)",
)

# What kernels say on healthy hosts.
_USUAL = (
    "usb 1-1: new high-speed USB device number 2 using xhci_hcd",
    'audit: type=1400 audit(1.1:1): apparmor="STATUS" operation="profile_load"',
    "perf: interrupt took too long (2505 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    f"mlx5_core {_NIC}: Port module event: module 0, Cable plugged",
    f"mlx5_core {_NIC}: E-Switch: Total vports 1, per vport: max uc(1024) max mc(16384)",
    "NVRM: The NVIDIA GPU driver was loaded",
    "nvme nvme1: 192/0/0 default/read/poll queues",
    "systemd-journald[1234]: Received client request to flush runtime journal.",
    "EXT4-fs (md0): re-mounted. Opts: errors=remount-ro",
    "pcieport 0000:00:01.0: AER: enabled with IRQ 30",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
    "md/raid1:md127: active with 2 out of 2 mirrors",
    "XFS (md127): Starting recovery (logdev: internal)",
    "XFS (md127): Ending clean mount",
    "EXT4-fs (md0): recovery complete",
    "BTRFS info (device sdb): bdev /dev/sdb errs: wr 0, rd 0, flush 0, corrupt 0, gen 0",
    "traps: a.out[4711] trap invalid opcode ip:401136 sp:7ffc0 error:0 in a.out[401000+1000]",
)

# What a line may carry besides its text.
_WRITTEN = (
    ("as journalctl writes it", "{at}{line}"),
    ("with more blanks", "{at} {line}  "),
    ("under another host's name", "2026-11-20T08:00:00+0000 host.example.com kernel: {line}"),
    ("with a month in another language", "11\u6708 20 08:00:00 gpu-01 kernel: {line}"),
)


def _told(lines: tuple[str, ...], why: str, allowed: frozenset[str]) -> list[Told]:
    """Return each line behind the log of a healthy host, written in each way."""
    return [
        Told("kernel_log", _CHECKS, f"{why}, {how}", r"\Z", _escaped(form.format(at=_AT, line=line)) + r"\n", allowed)
        for line in lines
        for how, form in _WRITTEN
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\")


def _early(lines: tuple[str, ...]) -> list[Told]:
    """Return each line in the middle of the log, and twice: a fault is not undone by what comes after it."""
    middle = r"^(?=.*NVRM: loading)"
    return [
        Told("kernel_log", _CHECKS, f"a fault {how}", middle, _escaped(f"{_AT}{line}\n" * times), SICK)
        for line in lines
        for how, times in (("in the middle of the log", 1), ("twice", 2), ("a hundred times", 100))
    ]


TOLD: tuple[Told, ...] = (
    *_told(_FAULTS, "a fault", SICK),
    *_early(_FAULTS),
    *_told(_NO_FAULTS, "what the driver calls no fault of the GPU", NOT_FAIL),
    *_told(_USUAL, "a usual line", HEALTHY),
    Told(
        "kernel_log",
        _CHECKS,
        "a line was suppressed",
        r"\Z",
        f"{_AT}net_ratelimit: 212 callbacks suppressed\n",
        NOT_FAIL,
    ),
    Told(
        "kernel_log",
        ("xid",),
        "an Xid that nobody knows",
        r"\Z",
        f"{_AT}NVRM: Xid (PCI:{_OTHER_GPU}): 999, pid=1, name=x, text\n",
        NOT_PASS,
    ),
    Told(
        "kernel_log",
        ("xid",),
        "an Xid of a GPU that the host does not have",
        r"\Z",
        f"{_AT}NVRM: Xid (PCI:0000:ff:00): 79, GPU has fallen off the bus.\n",
        NOT_PASS,
    ),
    Told(
        "fabric_manager_log",
        ("fabric_manager_log",),
        "a fatal error",
        r"\Z",
        "[Nov 20 2026 08:00:00] [ERROR] [tid 841] detected NVSwitch fatal error 20034\n",
        SICK,
    ),
    Told(
        "fabric_manager_log",
        ("fabric_manager_log",),
        "a usual line",
        r"\Z",
        "[Nov 20 2026 08:00:00] [INFO] [tid 841] multicast group 1 is freed.\n",
        HEALTHY,
    ),
)
