"""journalctl -k -b."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examine import Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.kernel_log import Message, parse


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
    (message,) = parse(Output(line + "\n"))
    assert (message.text, message.seconds) == (text, seconds)


def test_continuation_line_has_no_stamp():
    assert parse(Output("[1.0] a\n   b\n"))[1] == Message("", "   b")


@pytest.mark.parametrize(
    "output",
    [
        Output(""),
        Output("-- No entries --\n"),
        Output("-- Logs begin at 2025-01-21T04:41:44+0000 --\n"),
        Output("No journal files were found.\n"),
        Output("[1.0] a\n", rc=1),
        Output("[1.0] a\n[2.0] NVRM: Xi"),
    ],
)
def test_empty_or_failed_log_is_unreadable(output):
    with pytest.raises(Unreadable):
        parse(output)
