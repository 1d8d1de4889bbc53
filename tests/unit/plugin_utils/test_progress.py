"""One progress line for many processes."""

import os

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.control.progress import (
    HostProgress,
    SharedProgress,
    progress_line,
)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([], "burn-in: 0 of 0 done, 0 failed"),
        (
            [HostProgress(True, 2), HostProgress(True), HostProgress(False, 0, 12.7), HostProgress(False, 0, 3)],
            "burn-in: 2 of 4 done, 1 failed, ETA 00:00:12",
        ),
        ([HostProgress(False, 0, 172799, True)], "burn-in: 0 of 1 done, 0 failed, 1 unreachable, ETA 47:59:59"),
        # Its steps took their time, and its last examination still waits for a tool: nobody knows for how long.
        ([HostProgress(True), HostProgress()], "burn-in: 1 of 2 done, 0 failed, 1 past its planned end"),
        (
            [HostProgress(eta_seconds=61), HostProgress(), HostProgress(), HostProgress(unreachable=True)],
            "burn-in: 0 of 4 done, 0 failed, 1 unreachable, 2 past their planned end, ETA 00:01:01",
        ),
    ],
)
def test_line(hosts, expected):
    assert progress_line("burn-in", hosts) == expected


def shared(tmp_path, expected=2, **options):
    return SharedProgress("burn-in", ["1", "task"], expected, parent=str(tmp_path), **options)


def test_lines_come_at_most_every_few_seconds_and_the_last_always(tmp_path):
    first, second = shared(tmp_path, every_seconds=60), shared(tmp_path, every_seconds=60)
    done = HostProgress(True, waiting=False)
    assert first.report("a", HostProgress(eta_seconds=9)) is None
    os.utime(first.directory / "printed", (1, 1))
    assert second.report("b", HostProgress(eta_seconds=9)) == "burn-in: 0 of 2 done, 0 failed, ETA 00:00:09"
    assert first.report("a", done) is None
    assert second.report("b", done) == "burn-in: 2 of 2 done, 0 failed"
    assert second.report("b", done) is None


def test_line_comes_when_the_time_is_up_for_all(tmp_path):
    given_up = HostProgress(eta_seconds=9, waiting=False)
    assert shared(tmp_path, expected=1).report("a", given_up) == "burn-in: 0 of 1 done, 0 failed, ETA 00:00:09"


def test_deadline_is_that_of_the_first_host(tmp_path):
    first = shared(tmp_path).deadline(100)
    assert shared(tmp_path).deadline(5000) == first


def test_other_task_is_apart(tmp_path):
    shared(tmp_path).report("a", HostProgress())
    assert SharedProgress("burn-in", ["1", "other"], 1, parent=str(tmp_path)).hosts() == []


def test_half_written_host_is_not_counted(tmp_path):
    progress = shared(tmp_path)
    (progress.directory / "x.host").write_text('{"done"')
    assert progress.hosts() == []
