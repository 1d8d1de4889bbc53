#!/usr/bin/env python3
"""Makes signed repositories of the stand-ins: one for apt, for dnf those in rhel9, rocky9 and forged below it.

All packages are signed with one key, but those in forged. For pip there are a directory of wheels, the same as a simple
index, a directory in which one wheel is another, and a lock for each torch.
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
from collections.abc import Mapping, Sequence
from pathlib import Path

from stand_ins import DEBS, FORGED, ROCKY, RPMS, Package

sys.path.append(str(Path(__file__).resolve().parents[2]))
from tests.stand_in_wheels import lock_of, write_wheel

KEY_NAME = "Stand-in repository <repository@lab.invalid>"
# Command -> Debian or Ubuntu package.
NEEDED = {"gpg": "gnupg", "dpkg-deb": "dpkg", "rpmbuild": "rpm", "createrepo_c": "createrepo-c"}
SOURCES = {
    "nccl-tests-2.16.4": "mkdir build\nfor each in all_reduce alltoall; do echo built >build/${each}_perf; done\n",
    "nvbandwidth-0.8": "echo built >nvbandwidth\n",
}


def run(argv: Sequence[str | Path], **more: object) -> str:
    """Run a tool and return what it prints."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more).stdout  # type: ignore[call-overload,no-any-return]


def write_tree(tree: Path, files: Mapping[str, str]) -> None:
    """Write files below a directory; a script can be started."""
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)


class Signer:
    """gpg with one new key."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self.environment = {**os.environ, "GNUPGHOME": str(home)}
        # rpm's own code and that of other releases read no ed25519.
        self.run("--quick-generate-key", KEY_NAME, "rsa2048", "sign", "never")
        self.public_key = self.run("--armor", "--export", KEY_NAME)

    def run(self, *arguments: str | Path) -> str:
        gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
        return run([*gpg, *arguments], env=self.environment)

    def sign_rpms(self, files: Sequence[Path]) -> None:
        """Put a signature into each RPM."""
        defined = ("--define", "__gpg /usr/bin/gpg", "--define", f"_gpg_name {KEY_NAME}")
        run(["rpmsign", *defined, "--addsign", *files], env=self.environment)

    def close(self) -> None:
        """End gpg's agent, which would outlive the directory."""
        subprocess.run(["gpgconf", "--kill", "all"], env=self.environment, check=False, capture_output=True)


def build_deb(package: Package, place: Path, target: Path) -> str:
    """Build a deb and return its paragraph of the list."""
    tree = place / f"{package.name}_{package.version.replace(':', '%3a')}"
    control = (
        f"Package: {package.name}\nVersion: {package.version}\nArchitecture: amd64\nMaintainer: {KEY_NAME}\n"
        f"Depends: {', '.join(f'{name} (= {version})' for name, version in package.needs.items())}\n"
        f"Description: stand-in for {package.name}\n"
    ).replace("Depends: \n", "")
    scripts = {"DEBIAN/postinst": package.installed} if package.installed else {}
    write_tree(tree, {"DEBIAN/control": control, **scripts, **package.files})
    file = target / f"{tree.name}.deb"
    run(["dpkg-deb", "--build", "--root-owner-group", "-Znone", str(tree), str(file)])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    # A % in the address would be taken for an escape.
    plain = file.rename(file.with_name(file.name.replace("%3a", "_")))
    return f"{control}Filename: {plain.name}\nSize: {plain.stat().st_size}\nSHA256: {digest}\n"


def write_apt_repository(packages: Sequence[Package], signer: Signer, place: Path, target: Path) -> None:
    """Write a repository for apt."""
    listed = "\n".join(build_deb(package, place, target) for package in packages)
    (target / "Packages").write_text(listed, encoding="utf-8")
    digest = hashlib.sha256(listed.encode()).hexdigest()
    release = target / "Release"
    release.write_text(
        "Origin: Stand-in\nLabel: Stand-in\nArchitectures: amd64\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(listed.encode())} Packages\n",
        encoding="utf-8",
    )
    signer.run("--clearsign", "--output", release.with_name("InRelease"), release)


def paragraph(package: Package, tree: Path) -> str:
    """Return a package's part of a spec file, its own files being below ``tree``."""
    epoch, _, rest = package.version.rpartition(":")
    version, _, release = rest.rpartition("-")
    lines = [f"%package -n {package.name}", f"Epoch: {epoch or 0}", f"Version: {version}", f"Release: {release}"]
    lines += [f"Summary: stand-in for {package.name}", "AutoReqProv: no"]
    lines += ["BuildArch: noarch"] if package.noarch else []
    for tag, others in (("Requires", package.needs), ("Provides", package.provides)):
        lines += [f"{tag}: {name} = {version}" if version else f"{tag}: {name}" for name, version in others.items()]
    lines += [f"%description -n {package.name}", f"stand-in for {package.name}"]
    if package.installed:
        lines += [f"%post -n {package.name} -p <lua>", package.installed]
    lines += [f"%files -n {package.name}", *(f"/{name}" for name in package.files)]
    write_tree(tree, package.files)
    return "\n".join(lines)


def build_rpms(packages: Sequence[Package], place: Path) -> list[Path]:
    """Build RPMs, no two of one name, from one spec file, and return their files."""
    tree = place / "tree"
    tree.mkdir(parents=True)
    parts = "\n\n".join(paragraph(package, tree) for package in packages)
    spec = place / "stand_ins.spec"
    spec.write_text(
        "Name: stand-ins\nVersion: 1\nRelease: 1\nSummary: stand-ins\nLicense: none\n%description\nstand-ins\n\n"
        f"{parts}\n\n%install\ncp -a {tree}/. %{{buildroot}}/\n",
        encoding="utf-8",
    )
    settings = {
        "_topdir": place,
        "_rpmdir": place / "built",
        # Scripts stay as they are, and nothing is compressed.
        "__os_install_post": "%{nil}",
        "_binary_payload": "w0.ufdio",
    }
    defined = [word for name, value in settings.items() for word in ("--define", f"{name} {value}")]
    run(["rpmbuild", "--quiet", "-bb", "--target", "x86_64", *defined, spec])
    return sorted((place / "built").rglob("*.rpm"))


def write_dnf_repository(packages: Sequence[Package], signer: Signer, place: Path, target: Path) -> None:
    """Write a repository for dnf; of packages of one name each version is built by itself."""
    target.mkdir()
    batches: list[list[Package]] = []
    for package in packages:
        batch = next((batch for batch in batches if package.name not in {each.name for each in batch}), None)
        if batch is None:
            batches.append(batch := [])
        batch.append(package)
    for number, batch in enumerate(batches):
        for rpm in build_rpms(batch, place / target.name / str(number)):
            shutil.copy(rpm, target)
    signer.sign_rpms(sorted(target.glob("*.rpm")))
    run(["createrepo_c", "--quiet", "--no-database", target])


def source_archive(name: str, script: str, target: Path) -> None:
    """Write a source archive whose ``build.sh`` builds it, and its digest."""
    file = target / f"{name}.tar.gz"
    with tarfile.open(file, mode="w:gz") as tar:
        member = tarfile.TarInfo(f"{name}/build.sh")
        member.size = len(script)
        tar.addfile(member, io.BytesIO(script.encode()))
    file.with_name(f"{file.name}.sha256").write_text(hashlib.sha256(file.read_bytes()).hexdigest(), encoding="utf-8")


def write_wheels(target: Path) -> None:
    """Write stand-ins of torch and numpy for pip."""
    wheels, simple = target / "wheels", target / "simple"
    numpy = write_wheel(wheels, "numpy", "2.1")
    for version in ("1.0", "2.0", "3.0"):
        torch = write_wheel(wheels, "torch", version, ["numpy"])
        lock = lock_of({"numpy==2.1": numpy, f"torch=={version}": torch})
        (target / f"torch-{version}.txt").write_text(lock, encoding="utf-8")
    for wheel in wheels.iterdir():
        place = simple / wheel.name.partition("-")[0]
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, place)
    shutil.copytree(wheels, target / "tampered")
    write_wheel(target / "tampered", "torch", "2.0", ["numpy"], more="# tampered with\n")


def main(target: Path) -> None:
    """Write the repositories as a whole."""
    if missing := [package for command, package in NEEDED.items() if not shutil.which(command)]:
        subprocess.run(["apt-get", "-qq", "install", "--no-install-recommends", *missing], check=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        ours, stranger = Signer(place / "ours"), Signer(place / "stranger")
        try:
            write_apt_repository(DEBS, ours, place / "debs", target)
            write_dnf_repository(RPMS, ours, place, target / "rhel9")
            write_dnf_repository(ROCKY, ours, place, target / "rocky9")
            write_dnf_repository(FORGED, stranger, place, target / "forged")
            (target / "signing_key.asc").write_text(ours.public_key, encoding="utf-8")
        finally:
            ours.close()
            stranger.close()
    for name, script in SOURCES.items():
        source_archive(name, script, target)
    write_wheels(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
