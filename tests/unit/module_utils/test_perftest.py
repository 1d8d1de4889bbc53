"""Reports of perftest: only a whole one of the very test gives a figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.perftest import (
    BANDWIDTH,
    LATENCY,
    PerftestError,
    RailTest,
    Result,
    argv_of,
    gid_index_of,
    parse,
)

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "recorded" / "perftest"
BW = RailTest("single", BANDWIDTH, "rail0", "b", "a", 28301, 65536, queue_pairs=4, seconds=5, traffic_class=104)
LAT = RailTest("single", LATENCY, "rail0", "b", "a", 28301, 2, iterations=1000, traffic_class=104)
BW_REPORT = """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 1500.000000 != 3300.016000. CPU Frequency is not max.
 65536      3735000          0.00               391.65               0.746994
---------------------------------------------------------------------------------------
"""
LAT_REPORT = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
    " 2       1000          2.05           6.10         2.21                2.24             0.08            2.60"
    "                    6.10   \n"
    "---------------------------------------------------------------------------------------\n"
)


RULE = "-" * 87 + "\n"
# As perftest 25.01 ends where the memory of a GPU was used.
FREED = "deallocating GPU buffer 00007f2a1c000000\ndestroying current CUDA Ctx\n"


def test_whole_reports_give_their_figure() -> None:
    assert parse(BW_REPORT, BW) == Result(391.65, 3735000 * 65536)
    assert parse(LAT_REPORT, LAT) == Result(2.21, 2000)
    assert parse(BW_REPORT + FREED, BW) == parse(BW_REPORT, BW)
    assert parse(BW_REPORT + FREED.replace("GPU", "RX GPU"), BW) == parse(BW_REPORT, BW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 lines begin with #bytes"),
        (BW_REPORT * 2, "2 lines begin with #bytes"),
        (BW_REPORT[: BW_REPORT.index("0.746")], "0 rows|1 rows"),
        (BW_REPORT[: BW_REPORT.rindex("\n-")], "no end"),
        (BW_REPORT[: BW_REPORT.rindex("\n-")] + "\n" + FREED, "no end"),
        (BW_REPORT + " Failed to deregister MR\n" + FREED, "no end"),
        (BW_REPORT.replace("391.65", "0.00"), "expected more than 0"),
        (BW_REPORT.replace("391.65", "nan"), "0 rows"),
        (BW_REPORT.replace("391.65", "39\ufffd.65"), "not Unicode"),
        (BW_REPORT.replace("Gb/sec", "MB/sec"), "expected BW average"),
        (BW_REPORT.replace("65536 ", "4096 "), "4096 bytes, expected 65536"),
        (BW_REPORT.replace("3735000", "0"), "after 0 iterations"),
        (LAT_REPORT, "expected BW average"),
    ],
)
def test_report_that_is_cut_garbled_zero_or_anothers_gives_none(text: str, said: str) -> None:
    with pytest.raises(PerftestError, match=said):
        parse(text, BW)


@pytest.mark.parametrize("length", range(0, len(BW_REPORT) - 1, 7))
def test_report_cut_anywhere_gives_no_other_figure(length: int) -> None:
    try:
        assert parse(BW_REPORT[:length], BW).value == 391.65
    except PerftestError:
        return


@pytest.mark.parametrize(
    ("name", "value"),
    [("ib_write_bw-roce-100g-cx5.txt", 92.40), ("ib_write_bw-roce-bidir-peak-not-measured.txt", 98.02)],
)
def test_reports_of_real_machines_are_read(name: str, value: float) -> None:
    if not RECORDED.is_dir():
        pytest.skip(f"no recorded outputs at {RECORDED}")
    assert parse((RECORDED / name).read_text(), BW).value == value


def test_latency_by_time_and_other_layouts_give_no_figure() -> None:
    """With -D ib_write_lat prints a mean alone, which is not what is judged."""
    lasting = " #bytes        #iterations       t_avg[usec]    tps average\n 2   451234   2.25   444444.44\n" + RULE
    with pytest.raises(PerftestError, match=r"expected t_typical\[usec\]"):
        parse(lasting, LAT)
    with pytest.raises(PerftestError, match="rows of figures, expected one of 9 columns"):
        parse(LAT_REPORT.replace("2.60", "2.60 2.61"), LAT)


def test_latency_never_asks_for_the_memory_of_a_gpu() -> None:
    """perftest refuses it: "supports CUDA latency tests with read/send verbs only"."""
    with_gpu = {name: replace(test, gpu=3) for name, test in (("bw", BW), ("lat", LAT))}
    assert argv_of(with_gpu["bw"], "mlx5_0", 3, None)[-1] == "--use_cuda=3"
    assert not any("cuda" in word for word in argv_of(with_gpu["lat"], "mlx5_0", 3, None))


def test_dmabuf_is_asked_for_behind_the_gpu_and_never_of_the_hosts_memory() -> None:
    """perftest refuses it else: "CUDA DMA-BUF cannot be used without CUDA"."""
    by_dmabuf = replace(BW, gpu=3, dmabuf=True)
    assert argv_of(by_dmabuf, "mlx5_0", 3, "10.0.0.2")[-3:] == ["--use_cuda=3", "--use_cuda_dmabuf", "10.0.0.2"]
    assert "--use_cuda_dmabuf" not in argv_of(replace(by_dmabuf, gpu=None), "mlx5_0", 3, None)
    assert "--use_cuda_dmabuf" not in argv_of(replace(LAT, gpu=3, dmabuf=True), "mlx5_0", 3, None)


def test_command_says_device_mark_size_and_length() -> None:
    client = argv_of(BW, "mlx5_0", 3, "10.0.0.2")
    assert client == [
        *("ib_write_bw", "-d", "mlx5_0", "-F", "-p", "28301", "-s", "65536", "--report_gbits", "-q", "4", "-D", "5"),
        *("-x", "3", "--tclass=104", "10.0.0.2"),
    ]
    assert argv_of(LAT, "mlx5_0", None, None)[-3:] == ["-n", "1000", "--tclass=104"]


def test_gid_is_the_one_of_type_2_with_the_declared_address() -> None:
    mapped = "0000:0000:0000:0000:0000:ffff:ac10:0302"
    gids = {0: ("fe80::1", "IB/RoCE v1"), 2: (mapped, "IB/RoCE v1"), 3: (mapped, "RoCE v2\n"), 4: ("junk", "RoCE v2")}
    assert gid_index_of(gids, "172.16.3.2") == 3
    with pytest.raises(PerftestError, match="no GID of type RoCE v2 with address"):
        gid_index_of(gids, "172.16.3.9")
