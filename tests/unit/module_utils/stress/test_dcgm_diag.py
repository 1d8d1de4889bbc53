"""Running dcgmi diag, and reading what it gave."""

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.stress import dcgm_diag

from tests.fake_host import FakeHost

HEALTHY = (Path(__file__).parents[3] / "healthy" / "dcgm_diag.txt").read_text()
LISTING, REPORT = HEALTHY.split("\n\n==> dcgmi diag -r 4 -j <==\n")


def host_of(diag):
    """Return a host that answers dcgmi's two commands."""
    return FakeHost({"dcgmi discovery -l": Output(LISTING.partition("\n")[2])}, answer=diag)


def run(diag, level=4):
    return dcgm_diag.parse(dcgm_diag.collect(host_of(diag), None, 900, dcgm_diag.Settings(level)))


def test_diagnostic_is_told_to_stop_before_it_is_killed():
    host = host_of(Output(REPORT))
    dcgm_diag.collect(host, None, 900, dcgm_diag.Settings(3))
    argv, limit = host.runs[1], host.limits[1]
    assert argv == ("timeout", "--kill-after=60", "900", "dcgmi", "diag", "-r", "3", "-j")
    assert limit > 900 + 60


def test_healthy_run():
    diagnosis = run(Output(REPORT))
    assert (diagnosis.level, diagnosis.exit_status, diagnosis.unmapped) == (4, 0, "")
    assert (len(diagnosis.addresses), diagnosis.report.version) == (8, "4.2.3")
    assert {result.status for result in diagnosis.report.results} == {"pass"}
    assert dcgm_diag.parse(Output(HEALTHY)) == diagnosis


def test_exit_status_of_a_failed_test_stands_beside_the_report():
    diagnosis = run(Output("dcgmi warns of something\n" + REPORT, rc=226))
    assert (diagnosis.exit_status, len(diagnosis.report.results)) == (226, 72)


@pytest.mark.parametrize(
    ("diag", "said"),
    [
        (Output(rc=None, error="dcgmi: No such file or directory"), "No such file"),
        (Output(REPORT, rc=124), "stopped at its time limit"),
        (Output(REPORT, rc=137), "stopped at its time limit"),
        (Output("", "Error: cannot connect", 255), "exit status 255 and no output: Error: cannot connect"),
        (Output(""), "exit status 0 and no output"),
        (Output(REPORT[: len(REPORT) // 2]), "neither JSON"),
        (
            Output("Error: Unable to complete diagnostic for group.\n", rc=242),
            "no result of a test; begins with 'Error",
        ),
    ],
)
def test_run_without_a_report(diag, said):
    with pytest.raises(Unreadable, match=said):
        run(diag)


@pytest.mark.parametrize("text", ["", LISTING, REPORT, "==> dcgmi diag -r 5 -j <==\n" + REPORT])
def test_report_of_which_the_level_is_not_known(text):
    with pytest.raises(Unreadable, match="no output of 'dcgmi diag"):
        dcgm_diag.parse(Output(text))


def test_gpus_that_discovery_does_not_tell_are_not_guessed():
    diagnosis = dcgm_diag.parse(Output(HEALTHY.replace("8 GPUs found", "No GPUs found")))
    assert diagnosis.addresses is None
    assert "no count of GPUs" in diagnosis.unmapped
    alone = dcgm_diag.parse(Output("==> dcgmi diag -r 4 -j <==\n" + REPORT))
    assert (alone.addresses, alone.unmapped) == (None, "dcgmi discovery: not run")
