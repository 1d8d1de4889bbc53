#!/usr/bin/python
"""Module tool_archive: programs built from a declared source archive, as one archive that other hosts unpack."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tool_archive
short_description: Build programs from a source archive and pack them
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Fetches a source archive, compares its digest, runs the commands that build it in its only directory, and packs the
    files that are wanted. What is there already under the same O(name) and O(key) is left as it is.
  - Fails for a program that would start on this host alone. Its RPATH or RUNPATH leads into the build directory, it
    needs a library that only the build made, or it is a script that names the build directory. C(readelf) (binutils)
    reads them.
attributes:
  check_mode: {support: full, description: Says whether it would build.}
  diff_mode: {support: none, description: The archive is binary.}
options:
  name: {description: Name of the archive's one directory., type: str, required: true}
  key:
    description: Anything that changes when the archive has to be built again; part of its name.
    type: str
    required: true
  source: {description: "C(https://) address or path on this host.", type: str, required: true}
  sha256: {description: Digest of the source archive., type: str, required: true}
  build:
    description: Commands that build it, each a list of words; none for an archive of finished programs.
    type: list
    elements: list
    required: true
  files: {description: "Programs to pack, relative to the source directory.", type: list, elements: str, required: true}
  links:
    description: Beginning of the name of a shared library with which each program has to be linked. Scripts need not.
    type: str
    default: ""
  directory: {description: Where archives are kept., type: path, default: /var/cache/muster/tools}
"""

EXAMPLES = r"""
- name: Build nccl-tests
  muster.cluster.tool_archive:
    name: nccl-tests-2.19.6
    key: 3f6c0a1b2c3d
    source: https://mirror.example.com/nccl-tests-2.19.6.tar.gz
    sha256: 9a1c2e3f4b5d6a7c8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f9012345678901
    build:
      - [make, -j16, MPI=1, MPI_HOME=/usr/lib/x86_64-linux-gnu/openmpi, CUDARTLIB=cudart_static]
    files: [build/all_reduce_perf, build/all_gather_perf, build/reduce_scatter_perf, build/alltoall_perf]
    # Without MPI each process would test its own GPU alone.
    links: libmpi
"""

RETURN = r"""
path:
  description: The archive.
  returned: always
  type: str
  sample: /var/cache/muster/tools/nccl-tests-2.19.6-3f6c0a1b2c3d.tar.gz
"""

import gzip
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.shared_libraries import (
    LibraryError,
    build_bound,
    linking_of,
    without_library,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replacing
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "key": {"type": "str", "required": True, "no_log": False},
    "source": {"type": "str", "required": True},
    "sha256": {"type": "str", "required": True},
    "build": {"type": "list", "elements": "list", "required": True},
    "files": {"type": "list", "elements": "str", "required": True},
    "links": {"type": "str", "default": ""},
    "directory": {"type": "path", "default": "/var/cache/muster/tools"},
}


class BuildError(MusterError):
    """What went wrong, in words for the person who declared the tool."""


def fetched(source: str, sha256: str, place: Path) -> Path:
    """Return the source archive on this host, once its digest is the declared one; raises BuildError."""
    archive = Path(source)
    try:
        if "://" in source:
            archive = place / "source"
            archive.write_bytes(open_url(source, timeout=60).read())
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
    except (OSError, ValueError) as exc:
        raise BuildError(f"{source}: {exc}") from exc
    if found != sha256.lower():
        raise BuildError(f"{source}: sha256 is {found}, expected {sha256}")
    return archive


def unpacked(archive: Path, place: Path) -> Path:
    """Return the one directory that the archive holds; raises BuildError."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                target = os.path.realpath(place / member.name)
                if not target.startswith(f"{os.path.realpath(place)}{os.sep}") and target != os.path.realpath(place):
                    raise BuildError(f"{archive}: {member.name} lies outside of the archive")
            tar.extractall(place)
    except (tarfile.TarError, OSError, EOFError) as exc:
        raise BuildError(f"{archive}: {exc}") from exc
    tops = [path for path in place.iterdir() if path.is_dir()]
    if len(tops) != 1:
        raise BuildError(f"{archive}: holds {len(tops)} directories, expected one")
    return tops[0]


def check_fit(top: Path, files: list[str], links: str) -> None:
    """Raise BuildError for a file that was not built, or with what makes programs unfit for another host."""
    programs, reasons = {}, []
    for file in files:
        path = top / file
        if not path.is_file():
            raise BuildError(f"{file} is not there after the build")
        try:
            linking = linking_of(LocalHost(), path)
        except (LibraryError, OSError) as exc:
            raise BuildError(str(exc)) from exc
        if linking is not None:
            programs[file] = linking
        elif str(top).encode() in path.read_bytes():
            # libtool puts such a script where the program is expected, and the program into .libs.
            reasons.append(f"{file} is a script that names the build directory: pack the program that it starts")
    made = {path.name: str(path.relative_to(top)) for path in sorted(top.rglob("*.so*"))}
    reasons += build_bound(programs, made, str(top))
    reasons += without_library(programs, links) if links else []
    if reasons:
        raise BuildError("; ".join(reasons))


def _tar(zipped: gzip.GzipFile) -> tarfile.TarFile:
    return tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT)


def packed(top: Path, files: list[str], name: str, target: Path) -> None:
    """Write the archive: the same files give the same bytes."""
    # Neither times nor owners nor the name of the staged file go into it.
    with replacing(target) as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped, _tar(zipped) as tar:
        for file in files:
            path = top / file
            member = tarfile.TarInfo(f"muster/{name}/{path.name}")
            member.mode, member.size = 0o755, path.stat().st_size
            with path.open("rb") as content:
                tar.addfile(member, content)


@contextmanager
def workplace(directory: Path) -> Iterator[Path]:
    """Give a directory to build in, which goes afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=directory) as place:
        yield Path(place)


def main() -> None:
    """Build and pack."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    stem = f"{params['name']}-{params['key']}"
    target = Path(params["directory"], f"{stem}.tar.gz")
    if target.exists() or module.check_mode:
        module.exit_json(changed=not target.exists(), path=str(target))
    try:
        with workplace(Path(params["directory"])) as place:
            (place / "unpacked").mkdir()
            top = unpacked(fetched(params["source"], params["sha256"], place), place / "unpacked")
            for argv in params["build"]:
                rc, out, err = module.run_command([str(word) for word in argv], cwd=str(top))
                if rc != 0:
                    said = (err or out).strip()[-800:]
                    raise BuildError(f"{params['name']}: {' '.join(map(str, argv))} ended with status {rc}: {said}")
            check_fit(top, params["files"], params["links"])
            packed(top, params["files"], stem, target)
    except BuildError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=True, path=str(target))


if __name__ == "__main__":
    main()
