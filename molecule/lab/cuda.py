#!/usr/bin/env python3
"""Makes of this machine a build host with CUDA, as far as perftest needs it: everything lies under build/cuda.

CUDA's header comes from NVIDIA's package on PyPI, perftest's source from the archive of Debian that apt has here. The
driver's library is a stand-in (libcuda.c), with GPUs whose memory is the host's.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import urllib.request
from pathlib import Path

from lab_machine import ROOT, LabError, file_of_wheel, install_needed, run

HERE = Path(__file__).resolve().parent
PLACE = ROOT / "build" / "cuda"
# Command or file -> package, on Debian and Ubuntu.
COMPILERS = {"gcc": "gcc", "make": "make"}
HEADERS = {
    "/usr/include/stdio.h": "libc6-dev",
    "/usr/include/infiniband/verbs.h": "libibverbs-dev",
    "/usr/include/rdma/rdma_cma.h": "librdmacm-dev",
    "/usr/include/infiniband/umad.h": "libibumad-dev",
    "/usr/include/pci/pci.h": "libpci-dev",
}
# The last one of CUDA 12: perftest 25.01 does not compile with the header of CUDA 13.
CUDA = (
    "nvidia-cuda-runtime-cu12==12.9.79 --hash=sha256:25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3"
)
SOURCE = "pool/main/p/perftest/perftest_25.01.0+0.80.orig.tar.gz"
SOURCE_SHA256 = "54e86b131f0b06862b8b9cd692739737295463cfef467bdda5f5aa3dae8c5b05"


def header() -> None:
    """Put CUDA's header where the toolkit has it."""
    text = file_of_wheel(CUDA, "nvidia/cuda_runtime/include/cuda.h")
    target = PLACE / "include" / "cuda.h"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(text)


def library() -> None:
    """Compile the stand-in: to be linked with, as the toolkit's stub is, and for the hosts."""
    stubs = PLACE / "lib64" / "stubs"
    stubs.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-shared", "-fPIC"]
    run(["gcc", *flags, "-Wl,-soname,libcuda.so.1", "-o", stubs / "libcuda.so", HERE / "libcuda.c"])
    shutil.copy(stubs / "libcuda.so", PLACE / "libcuda.so.1")


def source() -> None:
    """Fetch perftest's source from the first of apt's archives that has it; raises LabError if none does (Ubuntu's)."""
    target = PLACE / Path(SOURCE).name
    # One that was written in part is fetched again.
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == SOURCE_SHA256:
        return
    listed = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).stdout.split()
    for archive in dict.fromkeys(listed):
        try:
            with urllib.request.urlopen(archive + SOURCE, timeout=60) as answer:
                data = answer.read()
        except (OSError, ValueError):
            continue
        if hashlib.sha256(data).hexdigest() == SOURCE_SHA256:
            target.write_bytes(data)
            return
    raise LabError(f"none of apt's archives has {SOURCE} of SHA-256 {SOURCE_SHA256[:12]}...: put it into {PLACE}")


def main() -> None:
    """Make what is not there yet."""
    install_needed(COMPILERS, HEADERS)
    PLACE.mkdir(parents=True, exist_ok=True)
    library()
    source()
    if not (PLACE / "include" / "cuda.h").exists():
        header()


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"cuda: {error}")
