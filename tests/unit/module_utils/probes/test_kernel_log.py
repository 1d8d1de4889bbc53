"""journalctl -k -b."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examine import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.kernel_log import Message, messages_in, parse


@pytest.mark.parametrize(
    ("line", "text", "seconds"),
    [
        ("2025-01-21T04:41:44+0000 host kernel: a b", "host kernel: a b", 1737434504),
        ("2025-01-21T04:41:44+00:00 host kernel: a", "host kernel: a", 1737434504),
        ("kern  :warn  : 2025-01-21T04:41:44,500000+00:00 a", "a", 1737434504.5),
        ("[  12.5] a", "a", 12.5),
    ],
)
def test_stamps(line, text, seconds):
    (message,) = messages_in(Output(line + "\n"))
    assert (message.text, message.seconds) == (text, seconds)


def test_continuation_line_has_no_stamp():
    assert messages_in(Output("[1.0] a\n   b\n"))[1] == Message("", "   b")


BANNER = "[0.0] Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n"


@pytest.mark.parametrize(
    "text",
    [
        BANNER,
        "2025-01-21T04:41:44+0000 host kernel: Linux version 6.1.0\n",
        "[0.0] microcode: updated early to revision 0x2b000571\n" + BANNER,
        "-- Journal begins at Tue 2025-01-21 04:41:44 UTC --\n[0.0] Booting Linux on physical CPU 0x0\n" + BANNER,
    ],
)
def test_log_from_the_start_of_the_boot_is_read(text):
    assert parse(Output(text + "[9.0] a\n"))[-1].text == "a"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T10:00:00+0000 gpu kernel: audit: rotated journal, boot was 3 weeks ago\n",
        "[9.0] a\n" * 20 + BANNER,
        "[9.0] usb: Linux version 6.1.0 gadget\n",
        "[9.0] Linux version unknown\n",
    ],
)
def test_log_without_the_start_of_the_boot_is_unreadable(text):
    with pytest.raises(Unreadable, match="no longer holds the beginning of this boot"):
        parse(Output(text))


@pytest.mark.parametrize(
    "output",
    [
        Output(""),
        Output("-- No entries --\n"),
        Output("-- Logs begin at 2025-01-21T04:41:44+0000 --\n"),
        Output("No journal files were found.\n"),
        Output(BANNER, rc=1),
        Output(BANNER + "[2.0] NVRM: Xi"),
    ],
)
def test_empty_or_failed_log_is_unreadable(output):
    with pytest.raises(Unreadable):
        parse(output)
