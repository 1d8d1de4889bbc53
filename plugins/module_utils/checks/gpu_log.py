"""What does the kernel log say of GPUs besides Xids: a driver that did not start, firmware or NVLink that hangs?

Formats: NVIDIA's open-gpu-kernel-modules (kernel-open/nvidia/nv.c, nvidia-peermem; src/nvidia: kernel_gsp.c, rpc.c,
kern_fsp*.c, kernel_nvlink*.c, nv_gpu_ops.c) and recorded logs. Newer drivers put ``GPU0`` behind ``NVRM:``, older ones
leave the colon out. ``status=0x62`` and ``[NV_ERR_RESET_REQUIRED]`` are the same (nvstatuscodes.h). A line at error
level that is not among these is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..judging.log_faults import HOST, faults_in, findings_of, pci_part, remarks_in, rule
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding

NAME = "gpu_log"
RULES = 3
PROBES: tuple[str, ...] = ("kernel_log",)

_ADDRESS = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_GPU = r"(?:GPU |PCI:|nvidia )" + _ADDRESS
_WORDS = ("NVRM", "nvidia", "Nvlink")
# nvidia-modeset and nvidia-drm drive displays.
_DRIVER = re.compile(r"(?:NVRM|nvidia(?![-_](?:modeset|drm))[\w-]*)\b")
# What a caller did wrong or asked for in vain, which says nothing of the GPU: no resources or permission, invalid
# arguments, no memory, not supported, not found.
_CALLERS = r"0x0*(?:1[a-f]|[23][0-9a-f]|51|56|57)\b"
_RULES = (
    # A kernel without the peer memory API needs it no more (dma-buf); where a fleet asks for it rdma_modules judges.
    rule(r"nvidia[-_]peermem: (?:disagrees about version of symbol|Unknown symbol) ib_(?:un)?register_peer_memory",
         "nvidia-peermem cannot be loaded", PASS, "investigate"),
    rule(r"^ *nvidia(?![-_](?:modeset|drm))[\w-]*: (?:disagrees about version of symbol|Unknown symbol|version magic)",
         "a module of the driver does not fit the kernel", FAIL, "investigate"),
    rule(r"nvidia[-_]peermem .*(?:ERROR|[Ff]ailed)",
         "GPUDirect RDMA (nvidia-peermem) reports errors", FAIL, "investigate"),
    rule(r"NVRM: " + _GPU + r".*RmInitAdapter failed! \((?P<code>[^)]*)\)",
         "driver could not start the GPU ({code})", FAIL, "reset_gpu"),
    rule(r"NVRM: " + _GPU + r".*rm_init_adapter failed", "driver could not start the GPU", FAIL, "reset_gpu"),
    rule(r"NVRM: (?:.*RmInitAdapter failed|rm_init_adapter failed)", "driver could not start a GPU", FAIL, "reset_gpu"),
    rule(r"NVRM: The NVIDIA probe routine failed for (?P<count>\d+) device",
         "driver could not initialize {count} GPUs", FAIL, "reboot"),
    rule(r"NVRM: (?:None of the NVIDIA devices were initialized|No NVIDIA (?:GPU found|devices probed))",
         "driver found no GPU that it could initialize", FAIL, "reboot"),
    rule(r"NVRM: The NVIDIA probe routine was not called for (?P<count>\d+) device",
         "another driver holds {count} GPUs", FAIL, "investigate"),
    rule(r"nvidia " + _ADDRESS + r": probe with driver nvidia failed with error", "driver could not start the GPU",
         FAIL, "reboot"),
    rule(r"nvidia: probe of " + _ADDRESS + r" failed with error", "driver could not start the GPU", FAIL, "reboot"),
    rule(r"NVRM: " + _GPU + r".*does not have the necessary power cables connected", "auxiliary power is not connected",
         FAIL, "reseat"),
    rule(r"NVRM: " + _GPU + r" is already bound to (?P<driver>[\w-]+)", "driver {driver} holds the GPU",
         FAIL, "investigate"),
    rule(r"NVRM: API mismatch", "kernel driver and user-space driver have different versions", FAIL, "investigate"),
    rule(r"nvidia-nvswitch\d*: Version mismatch", "kernel driver and fabric manager have different versions",
         FAIL, "investigate"),
    rule(r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid",
         "a GPU's memory window is missing: firmware settings", FAIL, "investigate"),
    rule(r"NVRM: BAR\d is 0M", "a GPU's memory window is missing: firmware settings", FAIL, "investigate"),
    rule(r"NVRM: " + _GPU + r".*GPU is probably locked", "GPU is locked up", FAIL, "reset_gpu"),
    rule(r"NVRM: .*RC watchdog: GPU is probably locked", "a GPU is locked up", FAIL, "reset_gpu"),
    rule(_GPU + r".*(?:config space inaccessible|device inaccessible)", "does not answer on the bus", FAIL, "reboot"),
    rule(r"NVRM: .*(?:installed in this system is not supported|requires use of the NVIDIA open kernel modules)",
         "driver does not support a GPU", FAIL, "investigate"),
    rule(r"NVRM.*(?:\[NV_ERR_RESET_REQUIRED\]|[sS]tatus[=: ]+0x0*62\b)",
         "a GPU has to be reset before it can work again (NV_ERR_RESET_REQUIRED)", FAIL, "reset_gpu"),
    rule(r"NVRM.*(?:\[NV_ERR_(?:GPU_IS_LOST|CARD_NOT_PRESENT)\]|[sS]tatus[=: ]+0x0*f\b|lost from the bus)",
         "a GPU is lost (NV_ERR_GPU_IS_LOST)", FAIL, "reboot"),
    rule(r"NVRM: Attempting to remove device " + _ADDRESS + r" with non-zero usage count",
         "GPU was removed while in use", FAIL, "reboot"),
    # Older drivers name the GPU by its minor number, or not at all.
    rule(r"NVRM: Attempting to remove (?:minor )?device\b.* with non-zero usage count",
         "a GPU was removed while in use", FAIL, "reboot"),
    rule(r"NVRM.*\bGPU\b.*\bhas been removed\b", "a GPU was removed", FAIL, "reboot"),
    rule(r"NVRM.*\[NV_ERR_(?P<kind>ECC_ERROR|MEMORY_ERROR|NVLINK_\w+|RISCV_ERROR|FATAL_ERROR)\]",
         "driver reports {kind}", FAIL, "reset_gpu"),
    rule(r"NVRM.*\bGspRmAlloc failed: .*\bstatus=(?!" + _CALLERS + r")(?P<status>0x[0-9a-f]+)",
         "GSP refused an allocation (status {status})", FAIL, "reset_gpu"),
    rule(r"NVRM.*\bGspRm\w+ failed: .*\bstatus=0x0*65\b", "GSP does not answer (NV_ERR_TIMEOUT)", FAIL, "reset_gpu"),
    rule(r"NVRM.*(?:\[NV_ERR_TIMEOUT\]|_threadNodeCheckTimeout: Timeout was set to)",
         "the driver waited in vain (NV_ERR_TIMEOUT)", INCOMPLETE, "investigate"),
    # What GSP's silence is traced to (NVIDIA/open-gpu-kernel-modules issue 1230): memory cannot be flushed.
    rule(r"NVRM.*(?:Memory Subsystem Error detected|\bkbusSendSysmembar\w*: .*(?:timeout|[Ff]ail))",
         "a GPU's memory does not answer", FAIL, "reset_gpu"),
    rule(r"NVRM.*\*\* GSP Timeout \*\*", "GSP does not answer", FAIL, "reset_gpu"),
    rule(r"NVRM.*[Hh]eartbeat timed out", "GSP does not answer (heartbeat)", FAIL, "reset_gpu"),
    rule(r"NVRM.*\b_?(?:kgsp|kfsp|kflcn|gspFsp|rpcRecvPoll|_issueRpcAndWait)\w*.*(?:[Tt]imed ?out|[Tt]imeout waiting)",
         "GSP or FSP does not answer", FAIL, "reset_gpu"),
    rule(r"NVRM.*\bPMU has halted", "a GPU's power management stopped (PMU halted)", FAIL, "reset_gpu"),
    rule(r"NVRM.*(?:GSP-CrashCat Report|GSP task (?:panic|exception|timeout)|RC all channels for critical error)",
         "GSP crashed", FAIL, "reset_gpu"),
    rule(r"NVRM.*(?:WPR2 already up|in a bad state|GFW[_ ](?:BOOT|boot)|[Cc]annot initialize GSP|RM cannot boot"
         r"|cannot proceed with booting|Fatal GSP-FMC Error|GSP(?:-FMC|-RM)? (?:boot|init\w*).*fail"
         r"|[Ff]ailed to boot GSP)", "GSP did not start", FAIL, "reset_gpu"),
    rule(r"(?:NVRM|nvidia-nvlink).*\bk?nvlink\w*: .*(?:[Ff]ail|[Ee]rror|[Tt]imed? ?out|[Cc]ould not|[Cc]annot)",
         "driver cannot manage NVLink: nvidia-smi may hang", FAIL, "reset_gpu"),
    rule(r"(?:NVRM|nvidia-uvm).*global fatal error", "unified memory met a fatal error, which a reboot alone ends",
         FAIL, "reboot"),
    rule(r"NVRM: A GPU crash dump has been created", "a GPU crashed", FAIL, "reset_gpu"),
    rule(r"NVRM: " + _GPU + r".*(?:[Uu]ncorrectable ECC error|ECC uncorrectable)", "uncorrectable ECC error",
         FAIL, "reset_gpu"),
    rule(r"NVRM: " + _GPU + r".*Failed to copy vbios", "GPU's firmware cannot be read", FAIL, "reset_gpu"),
    rule(r"nvidia-nvswitch\d*: .*[Ff]ailed to (?:init\w*|probe|load|post|register)",
         "driver could not start an NVSwitch", FAIL, "reboot"),
    rule(r"NVRM.*Chipset Setup Function Error", "driver does not know the chipset (harmless)", PASS, "none"),
    rule(r"nvidia: module verification failed", "driver is not signed (harmless)", PASS, "none"),
)  # fmt: skip


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, where the class has GPUs."""
    return [HOST] if gpu_subjects(expect) else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Give one finding for the host and one for each GPU of which the log tells something."""
    messages, part_of = values["kernel_log"], partial(pci_part, expect=expect)
    faults = faults_in(messages, _RULES, _WORDS, part_of)
    return findings_of(NAME, faults + remarks_in(messages, _DRIVER, _RULES, part_of), [HOST])
