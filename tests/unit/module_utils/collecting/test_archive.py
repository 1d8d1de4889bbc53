"""An archive comes back as it was, or not at all, whoever made it."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting import archive
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import (
    Collected,
    HostArchiveError,
    Taken,
    read_archive,
    write_archive,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

COLLECTED = Collected(
    "gpu-01",
    1750000000.25,
    {
        "uname": Output("6.1.0\n"),
        "lspci": Output("a\r\n\u2028\udcff", "b\n", 1),
        "lscpu": Output(rc=None, error="none"),
    },
    (Taken("uname", "uname -r", 6, 0), Taken("lspci", "lspci -vv", 12, 3)),
    "/usr/bin",
    "/host",
    "0.1.0",
)
MANIFEST = {
    "format": 1,
    "host": "gpu-01",
    "time": 1,
    "muster_version": "0.1.0",
    "tool_path": "/usr/bin",
    "root": "/",
    "taken": [],
}


def written(collected: Collected = COLLECTED) -> bytes:
    file = io.BytesIO()
    write_archive(file, collected)
    return file.getvalue()


def packed(members: Mapping[str, bytes], change: Callable[[tarfile.TarInfo], None] = lambda member: None) -> bytes:
    """Return a compressed tar of files, each header changed before it is written."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as made:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            change(member)
            made.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return file.getvalue()


def members(manifest: Any = MANIFEST, outputs: Any = None, **files: bytes) -> dict[str, bytes]:
    found = {"uname": {"rc": 0, "stdout": None}} if outputs is None else outputs
    return {
        "manifest.json": json.dumps(manifest).encode(),
        "raw/outputs.json": json.dumps(found).encode(),
        "raw/uname.txt": b"6.1.0\n",
        **files,
    }


def refused(tmp_path: Path, data: bytes) -> str:
    """Return why an archive cannot be read."""
    path = tmp_path / "x.tar.gz"
    path.write_bytes(data)
    with pytest.raises(HostArchiveError) as caught:
        read_archive(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
    return str(caught.value)


def test_archive_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "gpu-01.tar.gz"
    path.write_bytes(written())
    assert read_archive(path) == COLLECTED


def test_what_was_collected_alike_gives_the_same_bytes_of_roots_private_files() -> None:
    assert written() == written()
    with tarfile.open(fileobj=io.BytesIO(written())) as found:
        names = found.getnames()
        assert names == sorted(names) and names[0] == "manifest.json"
        assert {(member.mode, member.uid, member.gid, member.uname, member.mtime) for member in found} == {
            (0o600, 0, 0, "", 1750000000)
        }


def test_smallest_archive_by_hand_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed(members()))
    assert read_archive(path).outputs == {"uname": Output("6.1.0\n")}


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostArchiveError, match=r"none\.tar\.gz.*No such file"):
        read_archive(tmp_path / "none.tar.gz")


@pytest.mark.parametrize("part", range(0, 100, 7))
def test_truncated_archive_is_refused(tmp_path: Path, part: int) -> None:
    whole = written()
    refused(tmp_path, whole[: len(whole) * part // 100])


def test_archive_without_its_check_sum_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, written()[:-8])
    refused(tmp_path, written()[:-8] + bytes(8))


def test_damaged_archive_is_refused_or_read_as_it_was(tmp_path: Path) -> None:
    generator = random.Random(7)
    path = tmp_path / "x.tar.gz"
    tar = gzip.decompress(written())
    for _ in range(300):
        data = bytearray(tar)
        for _ in range(generator.randrange(1, 4)):
            # Headers are where a reader of tar goes wrong.
            data[generator.choice((0, 512, 1024, 1536, 2048)) + generator.randrange(512)] = generator.randrange(256)
        path.write_bytes(gzip.compress(bytes(data), 1))
        try:
            read_archive(path)
        except HostArchiveError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b""), id="nothing in gzip"),
        pytest.param(gzip.compress(b"no tar" * 1000), id="no tar"),
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "expected an archive of muster collect" in refused(tmp_path, data)


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "../manifest.json", "raw/../../x.txt", "raw/no_probe.txt", "raw/uname.txt/x", "uname.txt"),
        *("raw", "./manifest.json", "raw/uname.txt\n", "RAW/uname.txt", "raw//uname.txt", ""),
    ],
)
def test_member_of_another_name_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, packed({**members(), name: b"x"}))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE],
)
def test_member_that_is_no_regular_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    def change(member: tarfile.TarInfo) -> None:
        if member.name == "raw/uname.txt":
            member.type, member.linkname, member.size = kind, "manifest.json", 0

    assert "no regular file" in refused(tmp_path, packed(members(), change))


def test_member_twice_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as made:
        for name, content in [*members().items(), ("manifest.json", b"{}")]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    assert "each once" in refused(tmp_path, file.getvalue())


def test_million_members_end_at_the_second(tmp_path: Path) -> None:
    header = tarfile.TarInfo("manifest.json").tobuf()
    assert "each once" in refused(tmp_path, gzip.compress(header * 10**6, 1))


def test_bomb_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_UNPACKED_BYTES", 2**20)
    zeros = bytes(2**22)
    for bomb in (
        # In one file, behind the archive, and in a header.
        packed(members(**{"raw/lspci.txt": zeros})),
        gzip.compress(gzip.decompress(packed(members())) + zeros),
        packed(members(), lambda member: member.pax_headers.update(comment="x" * 2**22)),
    ):
        assert len(bomb) < 2**17
        assert "expected at most 1048576 bytes unpacked" in refused(tmp_path, bomb)


def test_file_with_holes_is_refused(tmp_path: Path) -> None:
    def change(member: tarfile.TarInfo) -> None:
        member.pax_headers = {
            "GNU.sparse.major": "0",
            "GNU.sparse.minor": "1",
            "GNU.sparse.map": "0,1",
            "GNU.sparse.size": str(2**50),
            "GNU.sparse.name": member.name,
        }

    refused(tmp_path, packed(members(), change))


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ([], "manifest.json: found an empty list, expected a mapping"),
        ({**MANIFEST, "format": 2}, "manifest.json: format: found 2, expected 1"),
        ({**MANIFEST, "format": [1]}, "manifest.json: format: found a list, expected 1"),
        ({}, "manifest.json: format: found nothing, expected 1"),
        ({**MANIFEST, "host": "../x"}, 'manifest.json: host: found "../x", expected letters'),
        ({**MANIFEST, "host": None}, "manifest.json: host: found nothing"),
        ({**MANIFEST, "time": "now"}, 'manifest.json: time: found "now", expected a number'),
        ({**MANIFEST, "time": -1}, "manifest.json: time: found -1"),
        ({**MANIFEST, "time": float("nan")}, "manifest.json: time: found NaN"),
        ({**MANIFEST, "time": 1e300}, "manifest.json: time: found 1e+300"),
        ({**MANIFEST, "taken": {}}, "manifest.json: taken: found a mapping, expected a list"),
        ({**MANIFEST, "taken": [1]}, "manifest.json: taken[0]: found 1, expected a mapping"),
        ({**MANIFEST, "more": 1}, 'manifest.json: found unknown key "more"'),
    ],
)
def test_manifest_of_another_kind_is_refused(tmp_path: Path, manifest: Any, said: str) -> None:
    assert said in refused(tmp_path, packed(members(manifest)))


@pytest.mark.parametrize(
    "outputs",
    [
        *([], 1, "x", {}, {"uname": 1}, {"uname": {"rc": "0", "stdout": None}}, {"uname": {"more": 1}}),
        *({"uname": {"stdout": None}, "lspci": {"stdout": None}}, {"../../etc/passwd": {"stdout": None}}),
    ],
)
def test_outputs_of_another_kind_are_refused(tmp_path: Path, outputs: Any) -> None:
    refused(tmp_path, packed(members(outputs=outputs)))


@pytest.mark.parametrize("name", ["manifest.json", "raw/outputs.json"])
def test_nested_or_missing_json_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, packed(members(**{name: b"[" * 10**6})))
    refused(tmp_path, packed(members(**{name: b"\xff"})))
    kept = {other: content for other, content in members().items() if other != name}
    assert f"found no {name}" in refused(tmp_path, packed(kept))
