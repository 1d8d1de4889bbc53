"""The verdict on NVLink error counters."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import gpu_nvlink_errors
from ansible_collections.muster.cluster.plugins.module_utils.probes.dcgmi_nvlink import COUNTERS, LinkErrors

from tests.typed import typed

FIRST, SECOND = "0000:1b:00.0", "0000:ab:00.0"
CLEAN = {link: dict.fromkeys(COUNTERS, 0) for link in range(18)}


def counted(link, **counts):
    return LinkErrors(
        {**CLEAN, link: {**CLEAN[link], **{name.replace("_", " "): count for name, count in counts.items()}}}
    )


def decide(expect, second):
    report = {FIRST: LinkErrors(CLEAN), **({SECOND: second} if second else {})}
    first, other = gpu_nvlink_errors.decide({"dcgmi_nvlink": report}, typed(expect))
    assert (first.verdict, first.subject, other.subject) == ("pass", f"gpu SXM1 {FIRST}", f"gpu SXM6 {SECOND}")
    return other


@pytest.mark.parametrize(
    ("errors", "verdict", "said"),
    [
        (LinkErrors(CLEAN), "pass", ""),
        (counted(3, CRC_Data_Error=4), "pass", ""),
        (counted(3, CRC_Data_Error=5), "fail", "class limit: link 3 CRC Data Error 5"),
        (counted(3, CRC_Data_Error=3, Replay_Error=2), "fail", "link 3 Replay Error 2"),
        # What was counted is enough, whatever else could not be read.
        (counted(3, CRC_Data_Error=5, Replay_Error=None), "fail", "link 3 CRC Data Error 5"),
        (counted(3, Replay_Error=None), "incomplete", "link 3 Replay Error not read"),
        (LinkErrors({link: CLEAN[link] for link in range(17)}), "incomplete", "link 17 absent"),
        (LinkErrors({}), "incomplete", "link 0 absent"),
        (LinkErrors({}, "exit status 255"), "incomplete", "exit status 255"),
        (None, "incomplete", "dcgmi lists no such GPU"),
    ],
)
def test_counters(expect, errors, verdict, said):
    finding = decide(expect, errors)
    assert finding.verdict == verdict and said in finding.reason
    assert finding.action == {"pass": "none", "fail": "reset_gpu", "incomplete": "investigate"}[verdict]


def test_class_that_reads_no_counters_owes_nothing(expect):
    assert len(gpu_nvlink_errors.subjects(typed(expect))) == 2
    assert gpu_nvlink_errors.subjects(typed({**expect, "nvlink": None})) == []
    assert gpu_nvlink_errors.subjects(typed({**expect, "dcgm": None})) == []
    assert gpu_nvlink_errors.subjects(typed({**expect, "dcgm": {**expect["dcgm"], "nvlink_errors": None}})) == []
