"""Texts that are no tool's, of a hundred thousand signs: each is judged, for no pattern may take the square of that.

A pattern that does takes minutes here; there is no clock in the test.
"""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import kernel_log
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import FAIL, PASS
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.recognised import TOOLS
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_text import text_of
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_verdicts import Saved, judged

SIGNS = 100_000
REPEATED = (
    *(" ", "\t", "\n", "\n ", " \t\n", "a", "0", "_", "|", "| ", "-", "=", "+-", "#", "#\n", ".", ",", "/", "/a", '"'),
    *(" : ", ": ", "0:", "0.", "0, ", "a ", "a-", "a_", "a=0 ", "a@b:", "(", "{", "[", "[{", "{}", '{"a":', "<"),
    *("\x08", "a\x08", "\x1b[", "\x1b]", "\r", "a\r", "==> ", "==> a <==\n", "--------\nhost\n", "root@", "0000:"),
    *("GPU ", "Link ", "NVRM: ", "mlx5_core ", "error ", "[    1.000000] NVRM: "),
)
# What a tool is known by, before what it never prints.
BEGUN = (
    "[    0.000000] Linux version 6.8\n[    1.000000] NVRM: ",
    "[    0.000000] Linux version 6.8\n[    1.000000] mlx5_core 0000:1a:00.0: ",
    "==============NVSMI LOG==============\nGPU 00000000:1B:00.0\n    ",
    "/dev/md0:\n           Version : 1.2\n",
    "Settings for eth0:\n\tSpeed: ",
    "host:1:1 [0] NCCL INFO NET/IB : Using [0]",
    "CA 'mlx5_0'\n\tPort 1:\n",
    "NodeName=gpu01 ",
    '{"droppacket": ',
)


def test_what_is_deleted_at_a_terminal_is_gone() -> None:
    assert text_of(b"a" * SIGNS + b"\x08" * SIGNS + b"dmesg\x08h\n\x08") == "dmesh\n"


def test_blanks_become_fewer_and_lines_stay_lines() -> None:
    assert text_of(b"a" + b" " * SIGNS + b"\n" * SIGNS + b"  b\n") == f"a{' ' * 100}\n{chr(10) * 98}  b\n"


@pytest.mark.parametrize("repeated", REPEATED)
def test_every_tool_is_asked_whether_a_long_text_is_its_own(repeated: str) -> None:
    text = text_of((repeated * (SIGNS // len(repeated))).encode())

    for tool in TOOLS:
        tool.marks(text)
        if tool.findings:
            assert all(each.verdict != PASS for each in tool.findings(text, None)), tool.name


@pytest.mark.parametrize("repeated", REPEATED)
def test_a_long_text_never_passes(repeated: str) -> None:
    text = text_of((repeated * (SIGNS // len(repeated))).encode())

    assert all(each.finding.verdict != PASS for each in judged([Saved("a.txt", "a.txt", text)], None))


@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("repeated", ["a", " ", "0", ": ", '{"a":', "NVRM: ", "mlx5_core "])
def test_a_long_line_of_a_known_tool_never_passes(begun: str, repeated: str) -> None:
    text = text_of((begun + repeated * (SIGNS // len(repeated)) + "\n").encode())

    assert all(each.finding.verdict != PASS for each in judged([Saved("a.txt", "a.txt", text)], None))


@pytest.mark.parametrize("before", range(0, 6000, 500))
def test_a_fault_is_found_wherever_it_stands_in_a_log_without_ends_of_lines(before: int) -> None:
    fault = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus. "
    text = f"[    0.000000] Linux version 6.8 {'x' * before} {fault} {'y' * 6000}\n"

    assert any(each.finding.verdict == FAIL for each in judged([Saved("a.txt", "a.txt", text)], None))
    assert any("fallen off" in message.text for message in kernel_log.parse(Output(text)))
