"""``muster judge FILE...`` as a person uses it at night: any file, worst first, no pass without a class."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import main

from tests.unit.plugin_utils.command.test_dispatch import HEALTHY
from tests.unit.plugin_utils.drafting.archives import archive_of
from tests.unit.plugin_utils.drafting.hosts import collected

SICK = (
    "[    0.000000] Linux version 5.15.0-1063-nvidia (buildd@lab)\n"
    "[   12.345678] NVRM: Xid (PCI:0000:19:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"
    "[   13.000000] systemd[1]: Reached target Basic System.\n"
)
HEALTHY_LOG = (
    "[    0.000000] Linux version 5.15.0-1063-nvidia (buildd@lab)\n"
    "[   12.345678] systemd[1]: Reached target Basic System.\n"
    "[   13.000000] systemd[1]: Reached target Network.\n"
)
CLOCK = (
    "Reference ID    : C0A80001 (ntp1)\nStratum         : 3\nRef time (UTC)  : Mon Mar 03 10:00:00 2025\n"
    "System time     : 0.000001234 seconds fast of NTP time\nLast offset     : +0.000000123 seconds\n"
    "RMS offset      : 0.000012345 seconds\nFrequency       : 1.234 ppm slow\nResidual freq   : +0.001 ppm\n"
    "Skew            : 0.012 ppm\nRoot delay      : 0.000123456 seconds\nRoot dispersion : 0.000234567 seconds\n"
    "Update interval : 64.2 seconds\nLeap status     : Normal\n"
)
SEL = "   1 | 03/03/25 | 10:00:00 UTC | Memory #0x87 | Uncorrectable ECC | Asserted\n"
XID = re.compile(r"^fail +.*\bxid\b.*79", re.MULTILINE)
Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, *words: str) -> tuple[int, list[str]]:
    """Return the exit status and the lines of ``muster judge``."""
    status = main(["judge", *words])
    return status, capsys.readouterr().out.splitlines()


def data_of(capsys: Capture, *words: str) -> dict:
    main(["judge", *words, "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def saved(tmp_path: Path):
    def save(content: str | bytes, name: str = "saved.txt") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return save


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "content",
    [
        SICK,
        SICK.rstrip("\n"),
        SICK.replace("\n", "\r\n"),
        "".join(
            json.dumps(
                {"__REALTIME_TIMESTAMP": "1790000000000001", "PRIORITY": "3", "_HOSTNAME": "gpu-01"}
                | {"SYSLOG_IDENTIFIER": "kernel", "MESSAGE": line.partition("] ")[2]}
            )
            + "\n"
            for line in SICK.splitlines()
        ),
        b"\xef\xbb\xbf" + SICK.encode(),
        SICK.encode("utf-16"),
        gzip.compress(SICK.encode()),
        gzip.compress(SICK.encode() + bytes(range(256)) * 4000)[:-2000],
        SICK.replace("NVRM", "\x1b[31mNVRM\x1b[0m"),
        SICK.replace("NVRM", "NVXX\x08\x08RM"),
        f"Script started on 2025-03-03 10:00:00+00:00\n$ dmesg\r\n{SICK}$ exit\r\nScript done on 2025-03-03\n",
        f"root@gpu-01:~# dmesg\n{SICK}root@gpu-01:~# ",
        f"[root@gpu-01 ~]# dmesg -T | tail\n{SICK}",
        f"$ dmesg\n{SICK}",
        f"==> dmesg.txt <==\n{SICK}",
        prefixed("0: ", SICK),
        prefixed("[1,0]<stdout>:", SICK),
        prefixed("gpu-01: ", SICK),
        prefixed("[pod/gpu-01/main] ", SICK),
        f"{'-' * 16}\ngpu-01\n{'-' * 16}\n{SICK}",
        CLOCK + SICK,
        SICK + CLOCK,
        HEALTHY_LOG + SICK,
        SICK + HEALTHY_LOG,
        f"root@gpu-01:~# chronyc tracking\n{CLOCK}root@gpu-01:~# dmesg\n{SICK}",
        f"root@gpu-01:~# dmesg\n{SICK}root@gpu-01:~# chronyc tracking\n{CLOCK}",
        f"root@gpu-01:~# dmesg\n{SICK}root@gpu-02:~# dmesg\n{HEALTHY_LOG}",
        f"root@gpu-01:~# dmesg\n{HEALTHY_LOG}root@gpu-02:~# dmesg\n{SICK}",
        f"root@gpu-01:~# dmesg\n{SICK}root@gpu-01:~# dmesg\n{HEALTHY_LOG}",
        f"root@gpu-01:~# dmesg\n{HEALTHY_LOG}root@gpu-01:~# dmesg\n{SICK}",
        f"node is odd, see below\n\n{SICK}",
        f"hello\nroot@gpu-01:~# dmesg\n{SICK}root@gpu-01:~# cat notes\nbla\n",
    ],
)
def test_fault_is_found_however_the_log_was_saved(content: str | bytes, saved, capsys: Capture) -> None:
    status, lines = told(capsys, saved(content))
    assert status == 1 and XID.search(lines[0]), lines
    assert lines[-1].startswith("fail (judged without a class: ")


@pytest.mark.parametrize("name", ["a.txt", "dmesg", "nvidia-smi-q.xml", "x.json", "report.csv"])
def test_name_of_a_file_says_nothing(name: str, saved, capsys: Capture) -> None:
    assert told(capsys, saved(SICK, name))[0] == 1


@pytest.mark.parametrize(
    "content",
    [
        HEALTHY_LOG,
        CLOCK,
        CLOCK + HEALTHY_LOG,
        (HEALTHY / "nvidia_smi.xml").read_bytes(),
        (HEALTHY / "dcgm_diag.txt").read_bytes(),
        (HEALTHY / "smartctl.txt").read_bytes(),
        (HEALTHY / "mlxlink.txt").read_bytes(),
        (HEALTHY / "ipmi_sel.txt").read_bytes(),
        gzip.compress((HEALTHY / "infiniband.txt").read_bytes()),
    ],
)
def test_nothing_passes_without_a_class(content: str | bytes, saved, capsys: Capture) -> None:
    status, lines = told(capsys, saved(content))
    assert status == 2
    assert lines[-1].startswith("incomplete (judged without a class: --class NAME or --expect FILE says")
    assert not [line for line in lines if line.startswith(("pass", "fail"))]
    assert len(lines) > 1


def test_text_that_nobody_knows_is_shown_by_its_first_line(saved, capsys: Capture) -> None:
    status, lines = told(capsys, saved("\n\nThe rack is warm.\nVery.\n"))
    assert status == 2 and "no tool recognised: begins with 'The rack is warm.'" in lines[0]


def test_file_without_a_byte_is_no_pass(saved, capsys: Capture) -> None:
    for content in ("", "\n \n", b"\xef\xbb\xbf", gzip.compress(b"")):
        status, lines = told(capsys, saved(content), "--class=dgx_h100")
        assert status == 2 and "the file is empty" in lines[0]


def test_bytes_that_are_no_text_are_no_pass(saved, capsys: Capture) -> None:
    status, lines = told(capsys, saved(bytes(range(256)) * 50))
    assert status == 2 and "no tool recognised" in lines[0]
    assert all(line.isprintable() for line in lines)


def test_cut_archive_says_so_and_passes_nothing(saved, capsys: Capture) -> None:
    packed = gzip.compress(HEALTHY_LOG.encode() * 500)
    status, lines = told(capsys, saved(packed[:-9]), "--class=dgx_h100", "--check=xid")
    assert status == 2 and lines[-1] == "incomplete"
    assert any("damaged gzip" in line for line in lines)


def test_host_of_the_prompt_stands_in_the_line(saved, capsys: Capture) -> None:
    paste = f"root@gpu-01:~# dmesg\n{HEALTHY_LOG}root@gpu-02:~# dmesg\n{SICK}"
    assert "xid gpu-02 " in told(capsys, saved(paste))[1][0]
    found = data_of(capsys, saved(paste))["findings"]
    assert {each["host"] for each in found if each["verdict"] == "fail"} == {"gpu-02"}
    assert {each["host"] for each in found} == {"gpu-01", "gpu-02"}


def test_two_hosts_at_once_are_told_apart(saved, capsys: Capture) -> None:
    mixed = "".join(
        f"gpu-01: {a}\ngpu-02: {b}\n" for a, b in zip(HEALTHY_LOG.splitlines(), SICK.splitlines(), strict=True)
    )
    found = data_of(capsys, saved(mixed))["findings"]
    assert {each["host"] for each in found if each["verdict"] == "fail"} == {"gpu-02"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_worst_of_several_files_comes_first(order: tuple[int, int], saved, capsys: Capture) -> None:
    paths = [saved(HEALTHY_LOG, "fine.txt"), saved(SICK, "sick.txt")]
    status, lines = told(capsys, *(paths[at] for at in order))
    assert status == 1 and XID.search(lines[0]) and "sick.txt: " in lines[0]
    assert any("fine.txt: " in line for line in lines)


def test_files_of_one_directory_are_found_below_it_too(saved, tmp_path: Path, capsys: Capture) -> None:
    saved(HEALTHY_LOG, "rack/gpu-01/dmesg.txt")
    saved(SICK, "rack/gpu-02/dmesg.txt")
    saved("x", "rack/.hidden")
    found = data_of(capsys, str(tmp_path / "rack"))["findings"]
    assert {each["file"] for each in found if each["verdict"] == "fail"} == {f"{tmp_path}/rack/gpu-02/dmesg.txt"}
    assert not [each for each in found if ".hidden" in each["file"]]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz"])
def test_archive_of_a_colleague_is_read(suffix: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / f"outputs.{suffix}"
    with tarfile.open(path, f"w:{suffix.partition('.')[2]}") as archive:
        for name, text in (("gpu-01/dmesg.txt", HEALTHY_LOG), ("gpu-02/dmesg.txt", SICK)):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    status, lines = told(capsys, str(path))
    assert status == 1 and f"{path}:gpu-02/dmesg.txt: " in lines[0]


def test_standard_input_is_judged(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SICK.encode())))
    status, lines = told(capsys, "-")
    assert status == 1 and XID.search(lines[0])


def test_collected_host_is_judged_without_a_class_too(tmp_path: Path, capsys: Capture) -> None:
    archive = str(archive_of(collected({"kernel_log": Output(SICK)}), tmp_path))
    status, lines = told(capsys, archive)
    assert status == 1 and XID.search(lines[0])


@pytest.mark.parametrize(
    ("content", "words", "status"),
    [
        ((HEALTHY / "nvidia_smi.xml").read_bytes(), ("--class=lab_h100", "--check=gpu_ecc"), 0),
        ((HEALTHY / "nvidia_smi.xml").read_bytes(), ("--class=lab_h100", "--check=gpu_ecc", "--check=xid"), 2),
        (SICK, ("--class=lab_h100", "--check=xid"), 1),
        (SICK, ("--check=xid",), 1),
        (SICK, ("--check=oom_log",), 2),
        (SICK, ("--probe=kernel_log",), 1),
    ],
)
def test_exit_status_says_the_verdict(
    content: str | bytes, words: tuple[str, ...], status: int, saved, capsys: Capture
) -> None:
    assert told(capsys, saved(content), *words)[0] == status


@pytest.mark.parametrize("probe", ["nvidia_smi", "lspci", "chrony"])
def test_text_that_is_not_the_named_probe_s_passes_nothing(probe: str, saved, capsys: Capture) -> None:
    status, lines = told(capsys, saved(SICK), f"--probe={probe}", "--class=lab_h100")
    assert status == 2 and lines[-1] == "incomplete"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("/nonexistent/x.txt",), "/nonexistent/x.txt: found nothing, expected a file or a directory"),
        (("--check=nonsense", "{}"), "found check 'nonsense', expected one of acs, "),
        (("--probe=nonsense", "{}"), "found probe 'nonsense', expected one of boot_id, "),
        (("--fleet=x.yml", "{}"), "--fleet: found no --class"),
        (("--probe=kernel_log", "."), ".: a directory and --probe"),
    ],
)
def test_wrong_words_are_named(words: tuple[str, ...], reason: str, saved, capsys: Capture) -> None:
    path = saved(SICK)
    data = data_of(capsys, *(word.format(path) for word in words))
    assert data["status"] == 2 and reason in data["error"]


def test_empty_directory_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert "found no file" in data_of(capsys, str(tmp_path))["error"]


def _broken_gpus() -> str:
    """nvidia-smi's report of eight GPUs, each with rows that could not be remapped."""
    text = (HEALTHY / "nvidia_smi.xml").read_text(encoding="utf-8")
    broken = text.replace(
        "<remapped_row_failure>No</remapped_row_failure>", "<remapped_row_failure>Yes</remapped_row_failure>"
    )
    assert broken != text
    return broken


def test_alike_findings_of_several_parts_are_one_line(saved, capsys: Capture) -> None:
    path = saved(_broken_gpus())
    status, lines = told(capsys, path)
    rows = [line for line in lines if "gpu_row_remap" in line]
    assert status == 1 and len(rows) == 1 and "8 GPUs (" in rows[0] and "and 4 more" in rows[0]
    _, every = told(capsys, path, "--all")
    assert len([line for line in every if line.startswith("fail") and "gpu_row_remap" in line]) == 8
    found = data_of(capsys, path)["findings"]
    assert len([each for each in found if each["check"] == "gpu_row_remap" and each["verdict"] == "fail"]) == 8


def test_passes_are_counted_and_told_by_all(saved, capsys: Capture) -> None:
    path = saved((HEALTHY / "nvidia_smi.xml").read_bytes())
    _, lines = told(capsys, path, "--class=lab_h100", "--check=gpu_ecc")
    assert re.fullmatch(r"pass +\d+ findings", lines[0]) and lines[1:] == ["pass"]
    _, every = told(capsys, path, "--class=lab_h100", "--check=gpu_ecc", "--all")
    assert len(every) - 1 == int(lines[0].split()[1])


def test_json_names_file_tool_and_host(saved, capsys: Capture) -> None:
    path = saved(f"root@gpu-02:~# dmesg\n{SICK}")
    data = data_of(capsys, path)
    assert data["verdict"] == "fail" and data["status"] == 1
    first = data["findings"][0]
    assert (first["file"], first["tool"], first["host"]) == (path, "the kernel's log", "gpu-02")
    assert (first["check"], first["verdict"]) == ("xid", "fail")


def test_report_under_load_names_the_checks_that_are_not_asked(saved, capsys: Capture) -> None:
    text = (HEALTHY / "nvidia_smi.xml").read_text(encoding="utf-8")
    busy = re.sub(r"<gpu_util>\d+ %</gpu_util>", "<gpu_util>100 %</gpu_util>", text)
    busy = re.sub(r"<power_draw>[\d.]+ W</power_draw>", "<power_draw>650.00 W</power_draw>", busy)
    _, lines = told(capsys, saved(busy))
    assert [line for line in lines if "taken under load, so that these were not asked: " in line], lines
    _, lines = told(capsys, saved(text))
    assert not [line for line in lines if "taken under load" in line]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("index, name, remapped_rows.pending\n0, NVIDIA H200, No\n1, NVIDIA H200, Yes\n", "reset_gpu"),
        ("index, ecc.errors.uncorrected.volatile.total\n0, 0\n1, 4\n", "4 uncorrectable errors"),
        ("uuid, temperature.gpu, power.draw [W]\nGPU-1, 31, 70.1 W\nGPU-2, [GPU is lost], [GPU is lost]\n", "lost"),
        ("pci.bus_id, pcie.link.width.current, pcie.link.width.max\n00000000:19:00.0, 8, 16\n", "8 lanes"),
        # Asked to leave out the names of the fields; the command at the prompt has them.
        ("$ nvidia-smi --query-gpu=index,gpu_recovery_action --format=csv,noheader\n0, None\n1, Reset\n", "Reset"),
        (
            "root@gpu-01:~# nvidia-smi --format=csv,noheader,nounits --query-gpu index,remapped_rows.pending\n"
            "0, No\n1, Yes\n",
            "reset_gpu",
        ),
    ],
)
def test_answer_to_a_query_tells_its_faults_without_a_class(text: str, said: str, saved, capsys: Capture) -> None:
    status, lines = told(capsys, saved(text))
    assert status == 1
    assert any(said in line for line in lines if line.startswith("fail")), lines


def test_outputs_of_one_host_are_judged_together(saved, tmp_path: Path, capsys: Capture) -> None:
    saved((HEALTHY / "nvidia_smi.xml").read_bytes(), "gpu-01/nvidia-smi.txt")
    saved(SEL, "gpu-01/sel.txt")
    status, lines = told(capsys, str(tmp_path / "gpu-01"))
    assert status == 1 and "sel.txt: bmc_log" in lines[0]


ARRAY = (
    "Personalities : [raid1]\nmd0 : active raid1 sda1[0] sdb1[1]\n      100 blocks [2/2] [UU]\n\n"
    "unused devices: <none>\n"
)
NCCL = (
    "gpu-01:1:1 [0] NCCL INFO Bootstrap : Using eth0\ngpu-01:1:1 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB: "
    "Got completion from peer 10.0.0.1<1> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
)


@pytest.mark.parametrize("sick", [SICK, SEL, NCCL, ARRAY.replace("[2/2] [UU]", "[2/1] [U_]")])
@pytest.mark.parametrize("fine", [HEALTHY_LOG, CLOCK, ARRAY, "dcgm_diag.txt", "smartctl.txt", "nvidia_smi.xml"])
@pytest.mark.parametrize("first", [True, False])
def test_sick_text_passes_in_no_company(sick: str, fine: str, first: bool, saved, capsys: Capture) -> None:
    beside = (HEALTHY / fine).read_text(encoding="utf-8") if "\n" not in fine else fine
    path = saved(sick + beside if first else beside + sick)
    assert told(capsys, path, "--class=lab_h100")[0] != 0


def ibstat(rates: list[int]) -> str:
    """Return what ibstat prints of one InfiniBand port for each rate."""
    port = (
        "CA 'mlx5_{number}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n"
        "\tHardware version: 0\n\tNode GUID: 0x00000000000000{number:02x}\n\tSystem image GUID: 0x1\n"
        "\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n\t\tBase lid: 1\n\t\tLMC: 0\n"
        "\t\tSM lid: 1\n\t\tCapability mask: 0x0\n\t\tPort GUID: 0x0\n\t\tLink layer: InfiniBand\n"
    )
    return "".join(port.format(number=number, rate=rate) for number, rate in enumerate(rates))


@pytest.mark.parametrize(
    ("rates", "status", "said"),
    [
        ([400] * 8, 0, "pass"),
        ([400] * 8 + [100] * 2, 0, "pass"),
        ([400] * 7, 2, "rail 7"),
        ([400] * 7 + [100], 1, "runs at 100 Gb/s"),
        ([200] * 8, 1, "runs at 200 Gb/s"),
    ],
    ids=["whole", "with ports for storage", "one is missing", "one is slow", "all are slow"],
)
def test_class_owes_all_of_its_rails_at_its_rate(
    rates: list[int], status: int, said: str, saved, capsys: Capture
) -> None:
    found, lines = told(capsys, saved(ibstat(rates)), "--class=dgx_h100", "--check=nic_link")
    assert any(said in line for line in lines), lines
    assert found == status, lines


def mlxlink(*speeds: str) -> str:
    """Return what mlxlink prints of one healthy port for each speed."""
    (report,) = re.findall(r"==> rail0 <==\n\n?(\{[\s\S]*?)\n==> rail1", (HEALTHY / "mlxlink.txt").read_text())
    return "".join(report.replace('"Speed" : "400G"', f'"Speed" : "{speed}"') for speed in speeds)


@pytest.mark.parametrize(
    ("speeds", "status", "said"),
    [
        (["400G"], 0, "pass"),
        (["200G"], 1, "runs at 200 Gb/s"),
        (["400G"] * 7 + ["200G"], 1, "runs at 200 Gb/s"),
        (["100G"] + ["400G"] * 8, 0, "pass"),
    ],
    ids=["whole", "slow", "one of all is slow", "with a port for storage"],
)
def test_physical_layer_at_another_rate_than_the_class_s_is_no_pass(
    speeds: list[str], status: int, said: str, saved, capsys: Capture
) -> None:
    found, lines = told(capsys, saved(mlxlink(*speeds)), "--class=dgx_h100")
    assert found == status and any(said in line for line in lines), lines
    assert told(capsys, saved(mlxlink(*speeds)))[0] == 2


NCCL_INIT = (
    "n:1:1 [0] NCCL INFO NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.3<0>\nn:1:1 [0] NCCL INFO Using network IB\n"
    "n:1:1 [0] NCCL INFO Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
    "n:1:1 [0] NCCL INFO comm 0x5 rank 3 nranks 16 - Init COMPLETE\n"
)


@pytest.mark.parametrize(
    ("count", "last", "status"), [(8, "", 0), (7, "", 1), (8, "n:1:1 [0] NCCL INFO comm 0x5 - Abort COMPLETE\n", 2)]
)
def test_nccl_s_log_passes_with_all_rails_and_a_sound_end(
    count: int, last: str, status: int, saved, capsys: Capture
) -> None:
    text = NCCL_INIT.format(devices=" ".join(f"[{at}]mlx5_{at}:1/IB" for at in range(count))) + last
    assert told(capsys, saved(text), "--class=dgx_h100")[0] == status


@pytest.mark.parametrize("command", ["all_reduce_perf -b 8G -e 8G\n", "[root@n1 ~]# all_reduce_perf -b 8G -e 8G\n"])
def test_collective_is_named_by_the_command_too(command: str, saved, capsys: Capture) -> None:
    ranks = "".join(f"#  Rank {at} Group 0 Pid {at} on n1 device {at} [0000:{at}b:00] NVIDIA H100\n" for at in range(8))
    columns = "time   algbw   busbw #wrong     time   algbw   busbw #wrong"
    side = "91480.0  93.90  164.3      0"
    text = (
        f"{command}# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n{ranks}#   size  count  type  redop  root  {columns}\n"
        f"  8589934592  2147483648  float  sum  -1  {side}  {side}\n# Out of bounds values : 0 OK\n"
    )
    lines = told(capsys, saved(text), "--class=dgx_h100")[1]
    assert any("speed" in line and "all_reduce" in line for line in lines), lines


def test_output_of_which_the_class_asks_nothing_passes_nothing(saved, capsys: Capture) -> None:
    status, lines = told(capsys, saved((HEALTHY / "nvme_read.txt").read_text()), "--class=dgx_h100")
    assert status == 2 and "the class asks nothing of it" in lines[0]


def test_complaint_of_a_tool_in_the_first_line_is_no_command(saved, capsys: Capture) -> None:
    text = "lfs check: error checking scr-OST0001-osc-ff9c: shut down (108)\nscr-MDT0000-mdc-ff9c active.\n"
    assert told(capsys, saved(text))[0] == 1


def perftest(gbps: str, size: int = 65536, title: str = "RDMA_Write BW Test") -> str:
    """Return what perftest prints of one test."""
    return (
        f"                    {title}\n Number of qps   : 4\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" {size}      5000           0.00               {gbps}              0.747890\n"
    )


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (perftest("392.11"), 0),
        (perftest("196.11"), 1),
        (perftest("3920.11"), 2),
        (perftest("196.11") + perftest("392.11", 8388608), 1),
        (perftest("392.11", 8388608) + perftest("196.11"), 1),
        (perftest("784.22", title="RDMA_Write Bidirectional BW Test") + perftest("392.11"), 0),
        (perftest("392.11", title="RDMA_Write Bidirectional BW Test") + perftest("392.11"), 1),
    ],
    ids=["whole", "half", "more than a rail carries", "half, then whole", "whole, then half", "both ways", "one way"],
)
def test_each_report_of_perftest_counts(text: str, status: int, saved, capsys: Capture) -> None:
    assert told(capsys, saved(text), "--class=dgx_h100")[0] == status
