"""LocalHost against real processes and files."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import host as host_module
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost


@pytest.fixture
def tool(tmp_path):
    def make(text, name="tool"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return LocalHost(tool_path=f"{tmp_path}/bin:/usr/bin:/bin", root=str(tmp_path))

    return make


def test_run_gives_output_status_and_c_locale(tool):
    output = tool('#!/bin/sh\necho "$LC_ALL $1"; echo oops >&2; exit 3\n').run(["tool", "x"], 5)
    assert (output.stdout, output.stderr, output.rc, output.error) == ("C x\n", "oops\n", 3, "")


def test_time_of_tools_that_run_at_once_is_counted_once(tool):
    host = tool("#!/bin/sh\nsleep 0.4\n")
    began = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        assert [output.rc for output in pool.map(lambda _: host.run(["tool"], 10), range(3))] == [0, 0, 0]
    assert 0.4 <= host.tool_seconds <= time.monotonic() - began
    host.run(["tool"], 10)
    assert host.tool_seconds >= 0.8


def test_missing_tool_is_named():
    output = LocalHost(tool_path="/nonexistent").run(["nvidia-smi"], 5)
    assert output.rc is None
    assert output.error == "nvidia-smi: not found in /nonexistent"


def test_time_limit_kills_the_whole_process_group(tool, tmp_path):
    host = tool(f"#!/bin/sh\nsh -c 'echo $$ > {tmp_path}/child; exec sleep 60' &\nwait\n")
    output = host.run(["tool"], 0.5)
    assert output.timed_out and output.rc is None and output.error == "tool: no answer within 0.5 s"
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    for _ in range(50):
        if not child.exists() or child.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the tool's child outlived the time limit")


def test_child_that_keeps_the_pipe_open_does_not_hold_us(tool):
    output = tool("#!/bin/sh\nsleep 60 &\necho done\n").run(["tool"], 0.5)
    assert output.timed_out


def test_killed_tool_has_a_negative_status(tool):
    assert tool("#!/bin/sh\necho half; kill -9 $$\n").run(["tool"], 5).rc == -9


def test_endless_output_is_cut_while_it_is_printed(tool, monkeypatch):
    monkeypatch.setattr(host_module, "OUTPUT_LIMIT_BYTES", 100_000)
    output = tool("#!/bin/sh\nexec cat /dev/zero\n").run(["tool"], 30)
    assert output.rc is None and not output.timed_out and "printed more" in output.error


def test_read_stands_under_root_and_names_what_is_missing(tool, tmp_path):
    host = tool("")
    (tmp_path / "file").write_bytes(b"a\xffb")
    assert host.read("/file").stdout == "a�b"
    assert host.read("/nothing").error == "/nothing: No such file or directory"


def test_read_of_a_kernel_parameter_gives_its_value():
    """The kernel refuses to fill a buffer of 4 MiB or more from /proc/sys: "Cannot allocate memory"."""
    path = "/proc/sys/net/ipv4/conf/lo/rp_filter"
    assert LocalHost().read(path).stdout == Path(path).read_text()


def test_read_of_more_than_the_limit_gives_nothing(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(host_module, "OUTPUT_LIMIT_BYTES", 100_000)
    host = tool("")
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    assert len(host.read("/file").stdout) == 100_000
    (tmp_path / "file").write_bytes(b"x" * 100_001)
    assert (host.read("/file").rc, host.read("/file").error) == (None, "/file: larger than 100000 bytes")


@pytest.mark.parametrize("times", [1, 2])
def test_stop_asks_first_and_kills_the_second_time(tool, tmp_path, times):
    """A tool that works through a service, as dcgmi does, has to be able to stop what it began there."""
    after = "exit 0" if times == 1 else ":"
    host = tool(f"#!/bin/sh\ntrap 'echo took back > {tmp_path}/said; {after}' TERM\ntouch {tmp_path}/up\n"
                "while :; do sleep 0.05; done\n")  # fmt: skip
    outputs = []
    thread = threading.Thread(target=lambda: outputs.append(host.run(["tool"], 60)))
    thread.start()
    while not (tmp_path / "up").exists():
        time.sleep(0.01)
    host.stop()
    thread.join(2)
    assert (tmp_path / "said").read_text() == "took back\n"
    if times == 2:
        assert thread.is_alive()
        host.stop()
        thread.join(10)
    assert not thread.is_alive()
    assert outputs[0].rc is None and "stopped" in outputs[0].error
