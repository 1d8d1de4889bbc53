#!/usr/bin/env python3
"""Makes a signed apt repository of stand-ins for NVIDIA's packages: their names, versions, dependencies and units.

What a stand-in does of the real one: the driver's unit "loads" its version where none is loaded since boot, the fabric
manager refuses another driver than its own, and the kernel module fails to build while /opt/lab/dkms_fails is there.
Names and version forms: NVIDIA's CUDA repository for Ubuntu 24.04. Dependencies of DCGM: cmake/packaging.cmake of
NVIDIA/DCGM; of its closed-source packages, which that file does not have, as of their open-source counterparts.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

KEY_NAME = "Stand-in repository <repository@lab.invalid>"
LOADED = "/opt/lab/root/proc/driver/nvidia/version"
BOOT_ID = "/opt/lab/root/proc/sys/kernel/random/boot_id"

PERSISTENCED = f"""#!/bin/sh
# A driver that is loaded stays until the next boot.
if ! cmp -s {BOOT_ID} /run/stand-in-loaded; then
    mkdir -p {Path(LOADED).parent}
    version=$(cat /usr/lib/stand-in/driver)
    echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $version  Release Build" >{LOADED}
    cp {BOOT_ID} /run/stand-in-loaded
fi
exec sleep infinity
"""
UNIT = """[Unit]
Description=Stand-in for {name}
{more}
[Service]
ExecStart={start}
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Deb:
    """One package."""

    name: str
    version: str
    depends: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    postinst: str = ""


def driver(version: str) -> list[Deb]:
    """Return driver and fabric manager of one version."""
    package = f"{version}-0ubuntu1"
    return [
        Deb(
            "nvidia-open-570",
            package,
            (f"nvidia-dkms-570-open (= {package})", f"nvidia-compute-utils-570 (= {package})"),
        ),
        Deb(
            "nvidia-dkms-570-open",
            package,
            files={"usr/lib/stand-in/driver": f"{version}\n"},
            postinst="#!/bin/sh\n[ ! -e /opt/lab/dkms_fails ]\n",
        ),
        Deb(
            "nvidia-compute-utils-570",
            package,
            files={
                "usr/bin/nvidia-persistenced": PERSISTENCED,
                "lib/systemd/system/nvidia-persistenced.service": (
                    "[Unit]\nStopWhenUnneeded=true\n[Service]\n"
                    "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode\n"
                ),
            },
        ),
        Deb(
            "nvidia-fabricmanager-570",
            f"{version}-1",
            files={
                "usr/bin/nv-fabricmanager": (
                    f"#!/bin/sh\nsleep 0.5\ngrep -qF ' {version} ' {LOADED} || exit 1\nexec sleep infinity\n"
                ),
                "lib/systemd/system/nvidia-fabricmanager.service": UNIT.format(
                    name="fabric manager",
                    more="Wants=nvidia-persistenced.service\nAfter=nvidia-persistenced.service",
                    start="/usr/bin/nv-fabricmanager",
                ),
            },
        ),
    ]


def others(dcgm: str, nccl: str, toolkit: str) -> list[Deb]:
    """Return what has versions of its own."""
    library = nccl.partition("-")[0]
    return [
        Deb("datacenter-gpu-manager-4-cuda12", dcgm, (f"datacenter-gpu-manager-4-core (= {dcgm})",)),
        Deb("datacenter-gpu-manager-4-proprietary", dcgm, (f"datacenter-gpu-manager-4-core (= {dcgm})",)),
        Deb(
            "datacenter-gpu-manager-4-proprietary-cuda12",
            dcgm,
            (f"datacenter-gpu-manager-4-proprietary (= {dcgm})",),
        ),
        Deb(
            "datacenter-gpu-manager-4-core",
            dcgm,
            files={
                "lib/systemd/system/nvidia-dcgm.service": UNIT.format(
                    name="DCGM", more="", start="/usr/bin/sleep infinity"
                )
            },
        ),
        Deb("libnccl2", nccl, files={f"usr/lib/x86_64-linux-gnu/libnccl.so.{library}": "stand-in\n"}),
        Deb("libnccl-dev", nccl, (f"libnccl2 (= {nccl})",)),
        Deb("nvidia-container-toolkit", toolkit, (f"nvidia-container-toolkit-base (= {toolkit})",)),
        Deb("nvidia-container-toolkit-base", toolkit),
    ]


DEBS = [
    *driver("570.86.15"),
    *others("1:4.2.3-1", "2.26.2-1+cuda12.8", "1.17.8-1"),
    *driver("570.124.06"),
    *others("1:4.4.1-1", "2.27.3-1+cuda12.9", "1.17.9-1"),
]
SOURCES = {
    "nccl-tests-2.16.4": "mkdir build\nfor each in all_reduce alltoall; do echo built >build/${each}_perf; done\n",
    "nvbandwidth-0.8": "echo built >nvbandwidth\n",
}


def run(argv: list[str], **more: object) -> str:
    """Run a tool and return what it prints."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more).stdout  # type: ignore[call-overload,no-any-return]


def build(deb: Deb, place: Path, target: Path) -> str:
    """Build one package and return its paragraph of the list."""
    tree = place / f"{deb.name}_{deb.version.replace(':', '%3a')}"
    control = f"Package: {deb.name}\nVersion: {deb.version}\nArchitecture: amd64\nMaintainer: {KEY_NAME}\n"
    control += f"Depends: {', '.join(deb.depends)}\n" if deb.depends else ""
    control += f"Description: stand-in for {deb.name}\n"
    scripts = {"DEBIAN/control": control, **({"DEBIAN/postinst": deb.postinst} if deb.postinst else {})}
    for name, text in {**scripts, **deb.files}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    file = target / f"{tree.name}.deb"
    run(["dpkg-deb", "--build", "--root-owner-group", "-Znone", str(tree), str(file)])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    # A % in the address would be taken for an escape.
    plain = file.rename(file.with_name(file.name.replace("%3a", "_")))
    return f"{control}Filename: {plain.name}\nSize: {plain.stat().st_size}\nSHA256: {digest}\n"


def sign(release: Path, place: Path) -> str:
    """Sign the release with a new key and return the public one."""
    home = place / "gnupg"
    home.mkdir(mode=0o700)
    environment = {**os.environ, "GNUPGHOME": str(home)}
    gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    try:
        run([*gpg, "--quick-generate-key", KEY_NAME, "ed25519", "sign", "never"], env=environment)
        run([*gpg, "--clearsign", "--output", str(release.with_name("InRelease")), str(release)], env=environment)
        return run([*gpg, "--armor", "--export", KEY_NAME], env=environment)
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=False, capture_output=True)


def source_archive(name: str, script: str, target: Path) -> None:
    """Write a source archive whose ``build.sh`` builds it, and its digest."""
    file = target / f"{name}.tar.gz"
    with tarfile.open(file, mode="w:gz") as tar:
        member = tarfile.TarInfo(f"{name}/build.sh")
        member.size = len(script)
        tar.addfile(member, io.BytesIO(script.encode()))
    file.with_name(f"{file.name}.sha256").write_text(hashlib.sha256(file.read_bytes()).hexdigest(), encoding="utf-8")


def main(target: Path) -> None:
    """Write the repository as a whole."""
    if not (shutil.which("gpg") and shutil.which("dpkg-deb")):
        subprocess.run(["apt-get", "-qq", "install", "--no-install-recommends", "gnupg", "dpkg"], check=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        packages = "\n".join(build(deb, place, target) for deb in DEBS)
        (target / "Packages").write_text(packages, encoding="utf-8")
        digest = hashlib.sha256(packages.encode()).hexdigest()
        release = target / "Release"
        release.write_text(
            "Origin: Stand-in\nLabel: Stand-in\nArchitectures: amd64\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
            f"SHA256:\n {digest} {len(packages.encode())} Packages\n",
            encoding="utf-8",
        )
        (target / "signing_key.asc").write_text(sign(release, place), encoding="utf-8")
    for name, script in SOURCES.items():
        source_archive(name, script, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
