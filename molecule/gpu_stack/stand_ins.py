"""Stand-ins for the packages of the scenario: NVIDIA's for Ubuntu 24.04 and for RHEL 9, and what Rocky Linux 9 has.

What a stand-in does of the real one: the driver's unit "loads" its version where none is loaded since boot, the fabric
manager refuses another driver than its own, and of Ubuntu's packages the kernel module fails to build while
/opt/lab/dkms_fails is there. The driver's libraries for RHEL end dnf in the middle of its transaction, as a power cut
would, while /opt/lab/power_cut is there.

Names and version forms: NVIDIA's CUDA repositories for Ubuntu 24.04 and RHEL 9, the latter for a host without a screen
(driver installation guide, "compute-only"). There the fabric manager is nvidia-fabric-manager up to 570, and
nvidia-fabricmanager from 580 on. Dependencies of DCGM: cmake/packaging.cmake of NVIDIA/DCGM; of its closed-source
packages, which that file does not have, as of their open-source counterparts. Dependencies of the driver's RPMs:
nvidia-driver.spec of negativo17/nvidia-driver, from which NVIDIA's is made; not seen in the RPMs themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

LOADED = "/opt/lab/root/proc/driver/nvidia/version"
BOOT_ID = "/opt/lab/root/proc/sys/kernel/random/boot_id"
UNITS = "usr/lib/systemd/system"

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
POWER_CUT = 'if posix.stat("/opt/lab/power_cut") then posix.kill(posix.getprocessid("pid"), 9) end\n'


@dataclass(frozen=True)
class Package:
    """One package: what it needs and provides by name, each in one version or, where that is empty, in any.

    ``version`` is the whole one, for an RPM with its epoch and release. ``installed`` is run after the installation: a
    shell script of a deb, Lua of an RPM, which needs no shell among the packages.
    """

    name: str
    version: str
    needs: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    provides: dict[str, str] = field(default_factory=dict)
    installed: str = ""
    noarch: bool = False


def persistence() -> dict[str, str]:
    """Return the files of the persistence daemon."""
    return {
        "usr/bin/nvidia-persistenced": PERSISTENCED,
        f"{UNITS}/nvidia-persistenced.service": (
            "[Unit]\nStopWhenUnneeded=true\n[Service]\n"
            "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode\n"
        ),
    }


def fabric_manager(driver: str) -> dict[str, str]:
    """Return the files of the fabric manager for a driver."""
    return {
        "usr/bin/nv-fabricmanager": (
            f"#!/bin/sh\nsleep 0.5\ngrep -qF ' {driver} ' {LOADED} || exit 1\nexec sleep infinity\n"
        ),
        f"{UNITS}/nvidia-fabricmanager.service": UNIT.format(
            name="fabric manager",
            more="Wants=nvidia-persistenced.service\nAfter=nvidia-persistenced.service",
            start="/usr/bin/nv-fabricmanager",
        ),
    }


def ubuntu_driver(version: str) -> list[Package]:
    """Return driver and fabric manager of one version for Ubuntu."""
    package = f"{version}-0ubuntu1"
    return [
        Package("nvidia-open-570", package, {"nvidia-dkms-570-open": package, "nvidia-compute-utils-570": package}),
        Package(
            "nvidia-dkms-570-open",
            package,
            files={"usr/lib/stand-in/driver": f"{version}\n"},
            installed="#!/bin/sh\n[ ! -e /opt/lab/dkms_fails ]\n",
        ),
        Package("nvidia-compute-utils-570", package, files=persistence()),
        Package("nvidia-fabricmanager-570", f"{version}-1", files=fabric_manager(version)),
    ]


def rhel_driver(version: str) -> list[Package]:
    """Return driver and fabric manager of one version for RHEL 9."""
    own = f"3:{version}"
    package = f"{own}-1.el9"
    return [
        Package(
            "nvidia-driver-cuda",
            package,
            {"nvidia-driver-cuda-libs": own, "nvidia-kmod-common": own, "nvidia-persistenced": own},
        ),
        Package(
            "nvidia-driver-cuda-libs",
            package,
            {"libnvidia-cfg": package, "libnvidia-ml": package},
            installed=POWER_CUT,
        ),
        Package("libnvidia-cfg", package),
        Package("libnvidia-ml", package),
        Package("nvidia-kmod-common", package, {"nvidia-kmod": own}, noarch=True),
        Package(
            "kmod-nvidia-open-dkms",
            package,
            {"nvidia-kmod-common": own, "dkms": ""},
            {"usr/lib/stand-in/driver": f"{version}\n"},
            {"nvidia-kmod": own},
            noarch=True,
        ),
        Package("nvidia-persistenced", package, files=persistence()),
        Package("nvidia-fabric-manager", f"{version}-1", files=fabric_manager(version)),
    ]


def nccl(version: str, name: str, headers: str, libraries: str) -> list[Package]:
    """Return NCCL by the names of a system."""
    return [
        Package(name, version, files={f"{libraries}/libnccl.so.{version.partition('-')[0]}": "stand-in\n"}),
        Package(headers, version, {name: version}),
    ]


def others(dcgm: str, toolkit: str) -> list[Package]:
    """Return what has versions of its own, and the same names and versions on both systems."""
    return [
        Package("datacenter-gpu-manager-4-cuda12", dcgm, {"datacenter-gpu-manager-4-core": dcgm}),
        Package("datacenter-gpu-manager-4-proprietary", dcgm, {"datacenter-gpu-manager-4-core": dcgm}),
        Package("datacenter-gpu-manager-4-proprietary-cuda12", dcgm, {"datacenter-gpu-manager-4-proprietary": dcgm}),
        Package(
            "datacenter-gpu-manager-4-core",
            dcgm,
            files={f"{UNITS}/nvidia-dcgm.service": UNIT.format(name="DCGM", more="", start="/usr/bin/sleep infinity")},
        ),
        Package("nvidia-container-toolkit", toolkit, {"nvidia-container-toolkit-base": toolkit}),
        Package("nvidia-container-toolkit-base", toolkit),
    ]


DEBS = [
    *ubuntu_driver("570.86.15"),
    *nccl("2.26.2-1+cuda12.8", "libnccl2", "libnccl-dev", "usr/lib/x86_64-linux-gnu"),
    *ubuntu_driver("570.124.06"),
    *nccl("2.27.3-1+cuda12.9", "libnccl2", "libnccl-dev", "usr/lib/x86_64-linux-gnu"),
    *others("1:4.2.3-1", "1.17.8-1"),
    *others("1:4.4.1-1", "1.17.9-1"),
]
RPMS = [
    *rhel_driver("570.86.15"),
    *nccl("2.26.2-1+cuda12.8", "libnccl", "libnccl-devel", "usr/lib64"),
    *rhel_driver("570.124.06"),
    *nccl("2.27.3-1+cuda12.9", "libnccl", "libnccl-devel", "usr/lib64"),
    *others("1:4.2.3-1", "1.17.8-1"),
    *others("1:4.4.1-1", "1.17.9-1"),
]
# Signed with a key that nobody declares.
FORGED = [Package("libnccl", "2.28.9-1+cuda12.9")]

# What the roles install on Rocky Linux 9, by the names of BaseOS, AppStream, CRB and EPEL. Most are empty: what runs is
# Debian's.
ROCKY = [
    Package(
        "chrony",
        "4.6.1-1.el9",
        files={
            "etc/chrony.conf": "pool 2.rocky.pool.ntp.org iburst\n",
            f"{UNITS}/chronyd.service": UNIT.format(name="chronyd", more="", start="/usr/bin/sleep infinity"),
        },
    ),
    Package("curl", "7.76.1-31.el9", provides={"/usr/bin/curl": ""}),
    Package("dkms", "3.1.6-1.el9", noarch=True),
    # The host's own Python, under the name of Rocky Linux' second one.
    Package(
        "python3.12",
        "3.12.9-1.el9",
        files={"usr/bin/python3.12": '#!/bin/sh\nexec /usr/bin/python3 "$@"\n'},
    ),
    *(
        Package(name, version)
        for name, version in {
            "dmidecode": "1:3.6-1.el9",
            "ethtool": "2:6.11-1.el9",
            "fio": "3.35-1.el9",
            "infiniband-diags": "54.0-1.el9",
            "ipmitool": "1.8.18-27.el9",
            "iproute": "6.11.0-1.el9",
            "libibverbs": "54.0-1.el9",
            "libibverbs-utils": "54.0-1.el9",
            "lldpd": "1.0.18-4.el9",
            "mstflint": "4.28.0-1.el9",
            "numactl": "2.0.18-2.el9",
            "pciutils": "3.7.0-5.el9",
            "perftest": "24.10.0-1.el9",
            "procps-ng": "3.3.17-14.el9",
            "rdma-core": "54.0-1.el9",
            "smartmontools": "1:7.2-9.el9",
            "stress-ng": "0.18.06-1.el9",
        }.items()
    ),
]
