"""The fabric manager's log: which line blames which part."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import fabric_manager_log as check
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import fabric_manager_log as probe

from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

WHERE = "on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33"
FATAL = f"[ERROR] [tid 841] detected NVSwitch fatal error 20034 {WHERE}"
SWITCH = "nvswitch 0000:86:00.0"


def findings(expect, *lines):
    text = healthy("fabric_manager_log") + "".join(
        line if line.startswith("[Nov") else f"[Nov 20 2026 08:{index:02}:00] {line}\n"
        for index, line in enumerate(lines)
    )
    found = check.decide({check.NAME: probe.parse(Output(text))}, typed(expect))
    return {finding.subject: (finding.verdict, finding.action) for finding in found}


def test_errors_before_the_last_start_are_history(expect):
    assert findings(expect) == {"host": ("pass", "none")}


@pytest.mark.parametrize(
    ("line", "part", "answer"),
    [
        (FATAL, SWITCH, ("fail", "reset_gpu")),
        # The driver's word counts where the guide does not know the code, and the guide's where the driver is mild.
        (FATAL.replace("20034", "29999"), SWITCH, ("fail", "reset_gpu")),
        (FATAL.replace("fatal", "non-fatal"), SWITCH, ("fail", "reset_gpu")),
        (FATAL.replace("on fid 0", "on NodeId 0"), SWITCH, ("fail", "reset_gpu")),
        (FATAL.replace("fatal error 20034", "non-fatal error 29999"), SWITCH, ("incomplete", "investigate")),
        ("[ERROR] [tid 841] detected NVSwitch fatal error 20034", "host", ("fail", "reset_gpu")),
        ("[ERROR] [tid 1] failed to find the GPU handle 10 in the multicast team request", "host", ("fail", "reboot")),
        (
            "[ERROR] number of NVSwitches don't match with any supported system topology, aborting fabric manager",
            "host",
            ("fail", "reboot"),
        ),
        (
            "[ERROR] [tid 1] interface version 535.1 don't match with driver version 530.2",
            "host",
            ("fail", "investigate"),
        ),
        ("[ERROR] [tid 1] something nobody has seen", "host", ("incomplete", "investigate")),
        ("[CRITICAL] [tid 1] something nobody has seen", "host", ("incomplete", "investigate")),
        ("[WARNING] [tid 1] something nobody has seen", "host", ("pass", "none")),
        ("[WARNING] [tid 1] lost connection to GPU physical id 4", "host", ("incomplete", "investigate")),
        ("[INFO] [tid 1] retrying after a timeout", "host", ("pass", "none")),
        ("[WARNING] [tid 1] GPU physical id 4 is working in degraded mode", "host", ("fail", "investigate")),
        ("[ERROR] [tid 1] NVLink training failed for NVSwitch physical id 2 port 33", "host", ("fail", "reset_gpu")),
        ("[INFO] [tid 1] NVLink training is complete", "host", ("pass", "none")),
    ],
)
def test_line_is_judged_on_its_part(expect, line, part, answer):
    assert findings(expect, line)[part] == answer


def test_non_fatal_error_is_watched_and_more_so_when_it_comes_back(expect):
    mild = f"[ERROR] [tid 1] detected NVSwitch non-fatal error 12028 {WHERE}"
    assert findings(expect, mild) == {"host": ("pass", "none")}
    assert findings(expect, mild, mild)[SWITCH] == ("pass", "investigate")


def test_fatal_error_that_comes_back_after_five_seconds_is_the_baseboards(expect):
    def twice(seconds):
        return findings(expect, f"[Nov 20 2026 08:00:00] {FATAL}\n[Nov 20 2026 08:00:{seconds:02}] {FATAL}\n")[SWITCH]

    assert twice(5) == ("fail", "reset_gpu")
    assert twice(6) == ("fail", "rma")


@pytest.mark.parametrize("change", [{"fabric_manager": False}, {"fabric_manager_log": None}])
def test_host_without_such_a_log_owes_nothing(expect, change):
    assert check.subjects(typed(expect)) == ["host"]
    assert check.subjects(typed({**expect, "nvlink": {**expect["nvlink"], **change}})) == []
    assert check.subjects(typed({**expect, "nvlink": None})) == []


JOURNAL = "Nov 20 08:00:0{} h {}\n"


def of_journal(expect, *lines):
    text = "".join(JOURNAL.format(index, line) for index, line in enumerate(lines, start=1))
    (found,) = check.decide({check.NAME: probe.parse(Output(text))}, typed(expect))
    return found.verdict, found.action


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "nvidia-fabricmanager-start.sh[9]: request to query NVSwitch device information from NVSwitch driver "
            "failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
            ("fail", "reboot"),
        ),
        (
            'nvidia-fabricmanager-start.sh[9]: "/usr/bin/nv-fabricmanager -c x.cfg" failed! Exit code: 1',
            ("fail", "investigate"),
        ),
        (
            "systemd[1]: nvidia-fabricmanager.service: Main process exited, code=killed, status=9/KILL",
            ("fail", "investigate"),
        ),
        ("systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.", ("fail", "investigate")),
        ("systemd[1]: Failed to start nvidia-fabricmanager.service - NVIDIA fabric manager.", ("fail", "investigate")),
        (
            "nv-fabricmanager[9]: fabric manager NVIDIA GPU driver interface version 550.1 don't match with driver "
            "version 550.2. Please update with matching NVIDIA driver package.",
            ("fail", "investigate"),
        ),
        ("nv-fabricmanager[9]: an error that nobody has seen", ("incomplete", "investigate")),
        (
            "nv-fabricmanager[9]: Successfully configured all the available GPUs and NVSwitches to route traffic.",
            ("pass", "none"),
        ),
        ("systemd[1]: nvidia-fabricmanager.service: Deactivated successfully.", ("pass", "none")),
    ],
)
def test_journal_of_the_service_is_read_as_its_log(expect, line, answer):
    assert of_journal(expect, "nvidia-fabricmanager-start.sh[9]: Detected Pre-NVL5 system", line) == answer


def test_failure_before_the_service_started_anew_is_history(expect):
    failed = "systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'."
    again = "systemd[1]: Starting nvidia-fabricmanager.service - NVIDIA fabric manager service..."
    assert of_journal(expect, failed, again, "nv-fabricmanager[9]: Connected to 1 node.") == ("pass", "none")
