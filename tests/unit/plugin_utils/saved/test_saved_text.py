"""Files as people save them: marks of terminals and launchers go, what they say of hosts and commands stays."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.finding_lines import lines_of
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_files import saved_in
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_text import Piece, pieces_of, text_of
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_verdicts import judged

PLAIN = "Reference ID    : 0A000001 (ntp-1)\nStratum         : 3\n"
LOST = "[   77.000001] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
QUIET = "[   76.000001] systemd[1]: Started a service.\n"


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.encode("utf-16"),
        PLAIN.encode("utf-16-le"),
        gzip.compress(PLAIN.encode()),
        PLAIN.replace("Stratum", "\x1b[1;31mStratum\x1b[0m").encode(),
        PLAIN.replace("Stratum", "Strax\x08tum").encode(),
        f"Script started on 2026-01-05\n{PLAIN}Script done on 2026-01-05\n".encode(),
    ],
    ids=["plain", "crlf", "bom", "utf16", "utf16-no-mark", "gzip", "colours", "backspace", "script"],
)
def test_marks_of_terminals_and_systems_go(data: bytes) -> None:
    assert text_of(data) == PLAIN


def test_damaged_gzip_is_named() -> None:
    with pytest.raises(ValueError, match="damaged gzip"):
        text_of(b"\x1f\x8b" + bytes(20))


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_nothing_has_no_pieces(text: str) -> None:
    assert pieces_of(text) == []


def test_prompts_say_host_and_command() -> None:
    text = f"root@gpu-1:~# dmesg\n{LOST}root@gpu-1:~# chronyc tracking\n{PLAIN}"
    assert pieces_of(text) == [Piece(LOST, "gpu-1", "dmesg"), Piece(PLAIN, "gpu-1", "chronyc tracking")]


def test_names_before_each_line_part_the_hosts() -> None:
    text = "".join(f"{host}: {line}\n" for line in PLAIN.splitlines() for host in ("gpu-1", "gpu-2"))
    assert pieces_of(text) == [Piece(PLAIN, "gpu-1"), Piece(PLAIN, "gpu-2")]


def test_fault_is_named_with_its_host_and_nothing_passes(tmp_path: Path) -> None:
    (tmp_path / "night.txt").write_text(
        f"[root@gpu-1 ~]# dmesg\n{QUIET}{LOST}[root@gpu-1 ~]# chronyc tracking\n{PLAIN}"
    )
    lines = lines_of(judged(saved_in(str(tmp_path / "night.txt"), None), None))
    assert lines[0].startswith("fail ") and "gpu-1" in lines[0] and "fallen off the bus" in lines[0]
    assert not [line for line in lines if line.startswith("pass ")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"what is this\n", "no tool recognised: begins with 'what is this'"),
        (b"\x1f\x8b" + bytes(20), "damaged gzip"),
    ],
)
def test_file_that_says_nothing_is_incomplete(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    (line,) = lines_of(judged(saved_in(str(tmp_path / "x"), None), None))
    assert line.startswith("incomplete ") and said in line
