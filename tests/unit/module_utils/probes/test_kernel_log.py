"""journalctl -k -b."""

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes.kernel_log import Message, messages_in, parse


@pytest.mark.parametrize(
    ("line", "text", "seconds"),
    [
        ("2025-01-21T04:41:44+0000 host kernel: a b", "a b", 1737434504),
        ("2025-01-21T04:41:44+00:00 host kernel: a", "a", 1737434504),
        ("kern  :warn  : 2025-01-21T04:41:44,500000+00:00 a", "a", 1737434504.5),
        ("[  12.5] a", "a", 12.5),
    ],
)
def test_stamps(line, text, seconds):
    (message,) = messages_in(Output(line + "\n"))
    assert (message.text, message.seconds) == (text, seconds)


@pytest.mark.parametrize(
    "stamp",
    ["11\u6708 15 14:15:47", "janv. 29 20:50:17", "M\u00e4r  5 20:50:17", "04 Aug, 14:03:26", "5. Mai 20:50:17"],
)
def test_stamp_in_another_language_is_no_part_of_the_text(stamp):
    assert messages_in(Output(f"{stamp} gpu-01 kernel: Oops: 0002\n")) == (Message(stamp, "Oops: 0002"),)
    # Without the kernel's name it may be anybody's text.
    assert messages_in(Output(f"{stamp} gpu-01 login: x\n"))[0].text == f"{stamp} gpu-01 login: x"


@pytest.mark.parametrize("number", ["1700", "1700 ", "1700:", "  1700\t"])
def test_number_that_a_pager_or_grep_wrote_is_no_part_of_the_line(number):
    assert messages_in(Output(f"{number}[   22.316553] a\n")) == (Message("22.316553", "a"),)


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
    with pytest.raises(Unreadable, match="lacks the beginning of this boot"):
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


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("Jan 21 04:41:44 host kernel: [   12.3] NVRM: a", 948429704),
        ("Jan 21 04:41:44.500000 host kernel: NVRM: a", 948429704.5),
        ("Tue 2025-01-21 04:41:44 UTC host kernel: NVRM: a", 1737434504),
        ("1737434504.500000 host kernel: NVRM: a", 1737434504.5),
        ("[   12.500000] host kernel: NVRM: a", 12.5),
        ("2025-01-21T04:41:44.500000+00:00 host kernel: [   12.3] NVRM: a", 1737434504.5),
        ("[Tue Jan 21 04:41:44 2025] NVRM: a", 1737434504),
        ("[Sun Dec  1 14:54:40 2024] host kernel: NVRM: a", 1733064880),
        ("kern  :warn  : [   12.500000] NVRM: a", 12.5),
        ("kern  :warn  : [Tue Jan 21 04:41:44 2025] NVRM: a", 1737434504),
        ("<6>[   12.500000] NVRM: a", 12.5),
        ("[   12.500000 <    0.000001>] NVRM: a", 12.5),
        ("[   12.500000] [ T1946] NVRM: a", 12.5),
        ("6,1234,12500000,-;NVRM: a", 12.5),
        ("4,1235,12500000,-,caller=T1946;NVRM: a", 12.5),
        ("[Jan21 04:41] NVRM: a", None),
        ("[  +0.000003] NVRM: a", None),
        ("kernel: NVRM: a", None),
        ("host kernel: NVRM: a", None),
        ("NVRM: a", None),
        ("[Tue Jan 41 04:41:44 2025] NVRM: a", 1739162504),
        ("[Tue Foo 21 04:41:44 2025] NVRM: a", None),
    ],
)
def test_every_form_of_a_saved_log_gives_the_same_text(line, seconds):
    (message,) = messages_in(Output(line + "\n"))
    assert (message.text, message.seconds) == ("NVRM: a", seconds)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("<3>[   12.500000] a", 3),
        ("<11>[   12.500000] a", 3),
        ("kern  :err   : [   12.500000] a", 3),
        ("kern  :warn  : 2025-01-21T04:41:44,500000+00:00 a", 4),
        ("6,1,5,-;a", 6),
        ("30,1,5,-;a", 6),
        ("[   12.500000] a", None),
        ("a", None),
    ],
)
def test_level_is_the_kernel_s_where_the_log_has_it(line, level):
    (message,) = messages_in(Output(line + "\n"))
    assert (message.text, message.level) == ("a", level)


@pytest.mark.parametrize(
    "output",
    [
        Output("[9.0] NVRM: a\n"),
        Output(BANNER + "[9.0] NVRM: a\n[10.0] NVRM: Xi"),
        Output(BANNER + "[9.0] NVRM: a\n[10.0] NVRM: \ufffd\n"),
        Output(BANNER + "[9.0] NVRM: a\n", rc=1),
        Output(BANNER + "[9.0] NVRM: a\n", "Journal file /x is truncated, ignoring file."),
    ],
)
def test_whole_lines_of_a_log_that_is_not_whole_are_what_could_be_read(output):
    with pytest.raises(Unreadable) as caught:
        parse(output)
    assert caught.value.read[-1] == Message("9.0", "NVRM: a")


def test_lines_of_other_programs_keep_their_name():
    (message,) = messages_in(Output("Aug 17 00:00:24 host systemd[1]: Finished Rotate log files.\n"))
    assert message.text == "host systemd[1]: Finished Rotate log files."


def test_dictionary_of_a_record_is_no_message():
    (message,) = messages_in(Output("6,1,5,-;usb 1-1: a\n SUBSYSTEM=usb\n DEVICE=c189:1\n"))
    assert message.text == "usb 1-1: a"


@pytest.mark.parametrize(
    "output",
    [
        Output(BANNER + "[2.0] NVRM: \ufffd\ufffd\n"),
        Output(BANNER + "[2.0] a\0b\n"),
        Output(BANNER, "Journal file /var/log/journal/x/system.journal is truncated, ignoring file."),
        Output(BANNER, "Hint: You are currently not seeing messages from other users and the system."),
    ],
)
def test_log_that_is_not_whole_is_unreadable(output):
    with pytest.raises(Unreadable):
        parse(output)


def test_healthy_log_is_read_from_its_beginning():
    text = (Path(__file__).resolve().parents[3] / "healthy" / "kernel_log.txt").read_text()
    assert parse(Output(text))[0].text.startswith("Linux version ")
