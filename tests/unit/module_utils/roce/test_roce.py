"""Setting RoCE ports and reading them back, on devices that obey and on ones that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.machine import LocalMachine
from ansible_collections.muster.cluster.plugins.module_utils.roce import apply as ports
from ansible_collections.muster.cluster.plugins.module_utils.roce.apply import Outcome, apply, check
from ansible_collections.muster.cluster.plugins.module_utils.roce.decide import BACKENDS, unsupported, wanted

from .conftest import INBOX, SETTINGS, SOFT, TOS, Nic, Nics, settings

BUFFERS = {"sizes_bytes": [20016, 156096, 0, 0, 0, 0, 0, 0], "of_priority": [0, 0, 0, 1, 0, 1, 0, 0]}


def applied(nic: Nic, base: dict[str, Any] = SETTINGS, **changes: Any) -> Outcome:
    return apply(nic, settings(base, **changes), 0)


@pytest.mark.parametrize("base", [SETTINGS, INBOX], ids=["doca", "inbox"])
def test_second_run_changes_nothing(nic: Nic, base: dict[str, Any]) -> None:
    first = applied(nic, base, buffers=BUFFERS)
    assert (first.problems, first.changed, str(first.place)) == ([], True, "rail 0 (mlx5_0, rdma0)")
    assert (nic.dcbx, nic.trust, nic.pfc) == ("OS", "dscp", [0, 0, 0, 1, 0, 1, 0, 0])
    assert (nic.dscp[26], nic.dscp[46], nic.dscp[48]) == (3, 5, 6)
    assert (nic.sizes, nic.of_priority) == (BUFFERS["sizes_bytes"], BUFFERS["of_priority"])
    assert (nic.tos, nic.rings) == ({"mlx5_0": "104"}, {"rx": "8192", "tx": "8192"})
    assert nic.files["/sys/class/net/rdma0/mtu"] == "9000"
    assert nic.files["/proc/sys/net/ipv4/conf/rdma0/arp_announce"] == "2"
    assert first.before["mtu_bytes"] == 1500
    assert first.after["mtu_bytes"] == 9000
    nic.written.clear()
    nic.ran.clear()
    second = applied(nic, base, buffers=BUFFERS)
    assert (second.problems, second.changed, second.before, nic.written) == ([], False, {}, [])
    assert not {"--pfc", "-G", "-t", "set", "replace"} & {word for argv in nic.ran for word in argv}


@pytest.mark.parametrize("base", [SETTINGS, INBOX], ids=["doca", "inbox"])
def test_check_changes_nothing_and_says_what_would(nic: Nic, base: dict[str, Any]) -> None:
    before = (dict(nic.files), dict(nic.tos), nic.qos())
    found = check(nic, settings(base))
    assert found.changed
    assert found.after["mtu_bytes"] == 9000
    assert any("mtu_bytes is 1500, expected 9000" in text for text in found.problems)
    assert (dict(nic.files), dict(nic.tos), nic.qos(), nic.written) == (*before, [])


def test_dcqcn_off_is_off_on_every_priority(nic: Nic) -> None:
    applied(nic)
    enabled = {path: text for path, text in nic.files.items() if "/enable/" in path}
    assert len(enabled) == 16
    assert set(enabled.values()) == {"0"}


def test_dcqcn_on_is_on_on_the_declared_priorities_alone(nic: Nic) -> None:
    outcome = applied(nic, dcqcn=True, cnp_dscp=48, cnp_priority=6, cm_tos=106)
    assert outcome.problems == []
    on = {path[-1] for path, text in nic.files.items() if "/enable/" in path and text == "1"}
    assert on == {"3", "5", "6"}
    assert nic.files["/sys/class/net/rdma0/ecn/roce_np/cnp_dscp"] == "48"


@pytest.mark.parametrize(
    ("before", "declared", "after"), [("Global tclass=106", None, ""), ("", 104, "Global tclass=104")]
)
def test_device_wide_class_is_set_or_unset(nic: Nic, before: str, declared: int | None, after: str) -> None:
    path = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"
    nic.files[path] = before
    assert applied(nic, traffic_class=declared).problems == []
    assert nic.files[path] == after


def test_rules_by_address_are_no_unset_device_wide_class(nic: Nic) -> None:
    nic.files["/sys/class/infiniband/mlx5_0/tc/1/traffic_class"] = "src_ip=10.0.0.1,tclass=12"
    nic.ignores = {"traffic_class"}
    assert any("traffic_class is src_ip=10.0.0.1,tclass=12, expected unset" in text for text in applied(nic).problems)


IGNORED = [
    (SETTINGS, "--pfc", "lossless_priorities is none, expected 3 5"),
    (SETTINGS, "--trust", "trust is pcp, expected dscp"),
    (SETTINGS, "--dcbx", "dcbx is firmware, expected host"),
    (SETTINGS, "--dscp2prio", "dscp_priority is 26: 3, 46: 5, 48: 6, expected 26: 4, 46: 5, 48: 6"),
    (SETTINGS, "mtu", "mtu_bytes is 1500, expected 9000"),
    (SETTINGS, "rings", "rings is rx: 1024, tx: 1024, expected rx: 8192, tx: 8192"),
    (SETTINGS, "cma_tos", "cm_tos is 0, expected 104"),
    (SETTINGS, "4", "dcqcn is notification: 4, reaction: 4, expected notification: none, reaction: none"),
    (INBOX, "pfc", "lossless_priorities is none, expected 3 5"),
    (INBOX, "dcbx", "dcbx is firmware, expected host"),
    (INBOX, "app", "trust is pcp, expected dscp"),
]


@pytest.mark.parametrize(("base", "ignored", "expected"), IGNORED, ids=[each[1] for each in IGNORED])
def test_device_that_takes_a_setting_and_forgets_it_is_caught(
    nic: Nic, base: dict[str, Any], ignored: str, expected: str
) -> None:
    nic.ignores = {ignored}
    changes: dict[str, Any] = {}
    if ignored == "--dscp2prio":
        changes["dscp_priority"] = [{"dscp": 26, "priority": 4}, *SETTINGS["dscp_priority"][1:]]
    assert f"rail 0 (mlx5_0, rdma0): {expected}" in applied(nic, base, **changes).problems


def test_tool_that_is_missing_is_named(nic: Nic) -> None:
    nic.ignores = {"mlnx_qos"}
    assert any("trust could not be read (mlnx_qos -i rdma0: mlnx_qos: not" in text for text in applied(nic).problems)


UNSUPPORTED = [
    ({"dcqcn": True}, "dcqcn"),
    ({"dcqcn": False}, "dcqcn"),
    ({"cnp_dscp": 48}, "cnp_dscp"),
    ({"cnp_priority": 6}, "cnp_priority"),
    ({"traffic_class": 104}, "traffic_class"),
]


@pytest.mark.parametrize(("changes", "name"), UNSUPPORTED)
def test_what_the_backend_cannot_do_is_named_and_nothing_is_changed(
    nic: Nic, changes: dict[str, Any], name: str
) -> None:
    wrong = settings(INBOX, **changes)
    assert [text.partition(" (declared")[0] for text in unsupported(wrong)] == [
        f"rail 0 (0000:1a:00.0): backend inbox cannot set {name}"
    ]
    for outcome in (apply(nic, wrong, 0), check(nic, wrong)):
        assert outcome.problems == unsupported(wrong)
    assert (nic.ran, nic.written) == ([], [])


def test_vendor_backend_can_do_all_that_is_declared() -> None:
    everything = settings(dcqcn=True, cnp_dscp=48, cnp_priority=6, traffic_class=104, buffers=BUFFERS)
    assert unsupported(everything) == []
    assert set(wanted(everything)) == set(BACKENDS["doca"].abilities)


@pytest.mark.parametrize("name", ["doca", "inbox"])
def test_every_ability_can_be_read_back(name: str) -> None:
    backend = BACKENDS[name]
    assert set(backend.abilities) <= {given for source in backend.sources for given in source.gives}
    assert set(backend.steps) <= set(backend.abilities)


def test_soft_roce_is_set_where_only_what_it_can_do_is_declared(soft: Nic) -> None:
    outcome = applied(soft, SOFT, cm_tos=8)
    assert (outcome.problems, str(outcome.place), soft.tos) == ([], "rail 0 (rxe0, eth1)", {"rxe0": "8"})
    assert soft.files["/sys/class/net/eth1/mtu"] == "9000"
    assert TOS.format("rxe0") not in soft.files
    assert not applied(soft, SOFT, cm_tos=8).changed


def test_flow_control_on_a_device_without_any_is_named(soft: Nic) -> None:
    outcome = applied(soft, INBOX, rings=None)
    assert any(
        text.startswith("rail 0 (rxe0, eth1): lossless_priorities could not be read (dcb -j pfc show dev eth1: ")
        and "Operation not supported" in text
        for text in outcome.problems
    )


PCI = "/sys/bus/pci/devices"


@pytest.mark.parametrize(
    ("gone", "more", "expected"),
    [
        (
            [f"{PCI}/0000:1a:00.0/infiniband/mlx5_0"],
            [f"{PCI}/0000:3c:00.0/infiniband/mlx5_0"],
            "rail 0 has no RDMA device at 0000:1a:00.0, RDMA devices of this host: mlx5_0 at 0000:3c:00.0",
        ),
        (
            [f"{PCI}/0000:1a:00.0/net/rdma0"],
            [],
            "rail 0 has no network interface at 0000:1a:00.0, network interfaces of this host: none",
        ),
        (
            [],
            [f"{PCI}/0000:1a:00.0/infiniband/rxe0"],
            "rail 0 has RDMA devices mlx5_0, rxe0 at 0000:1a:00.0, expected one",
        ),
    ],
    ids=["another address", "no interface", "two devices"],
)
def test_rail_without_one_port_is_named_and_nothing_is_changed(
    nic: Nic, gone: list[str], more: list[str], expected: str
) -> None:
    for path in gone:
        del nic.files[path]
    nic.files.update(dict.fromkeys(more, ""))
    outcome = applied(nic)
    assert (outcome.rail, outcome.place, outcome.problems) == ("rail0", None, [expected])
    assert (nic.ran, nic.written) == ([], [])


@pytest.mark.parametrize("base", [SETTINGS, INBOX], ids=["doca", "inbox"])
def test_port_that_udev_renamed_is_as_declared(nic: Nic, base: dict[str, Any]) -> None:
    assert applied(nic, base).changed
    nic.rename("rocep26s0", "enp26s0np0")
    nic.written.clear()
    second = applied(nic, base)
    assert (str(second.place), second.problems) == ("rail 0 (rocep26s0, enp26s0np0)", [])
    assert (second.changed, nic.written) == (False, [])
    nic.files["/sys/class/net/enp26s0np0/mtu"] = "1500"
    assert check(nic, settings(base)).problems == ["rail 0 (rocep26s0, enp26s0np0): mtu_bytes is 1500, expected 9000"]
    assert applied(nic, base).after == {"mtu_bytes": 9000}


def test_port_that_udev_renames_while_it_is_set_is_set(nic: Nic, monkeypatch: pytest.MonkeyPatch) -> None:
    run = nic.run

    def rename_after_first_change(argv: Any, timeout_seconds: float) -> Output:
        done = run(argv, timeout_seconds)
        if "--dcbx" in argv:
            nic.rename("rocep26s0", "enp26s0np0")
        return done

    monkeypatch.setattr(nic, "run", rename_after_first_change)
    outcome = applied(nic)
    assert (str(outcome.place), outcome.problems) == ("rail 0 (rocep26s0, enp26s0np0)", [])
    assert nic.trust == "dscp"


def test_card_that_shifts_the_numbers_is_left_alone() -> None:
    storage, rail = Nic("mlx5_0", "eth0", "0000:03:00.0"), Nic("mlx5_1", "rdma0")
    before = dict(storage.files)
    outcome = apply(Nics(storage, rail), settings(), 0)
    assert (str(outcome.place), outcome.problems) == ("rail 0 (mlx5_1, rdma0)", [])
    assert (storage.files, storage.ran, storage.tos) == (before, [], {"mlx5_0": "0"})
    assert rail.tos == {"mlx5_1": "104"}


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        ({"gids/3": "0000:0000:0000:0000:0000:ffff:ac10:0003"}, "those of 172.16.0.3"),
        ({"gids/3": "0000:0000:0000:0000:0000:0000:0000:0000"}, "none"),
        ({"gid_attrs/types/3": "IB/RoCE v1"}, "none"),
        ({"gid_attrs/ndevs/3": "bond0"}, "none"),
    ],
)
def test_missing_gid_is_named(nic: Nic, spoil: dict[str, str], found: str) -> None:
    for path, text in spoil.items():
        nic.files[f"/sys/class/infiniband/mlx5_0/ports/1/{path}"] = text
    expected = f"rail 0 (mlx5_0, rdma0): no RoCE v2 GID of 172.16.0.1, found {found}"
    assert applied(nic).problems == [expected]


def test_late_device_and_address_are_waited_for(nic: Nic, monkeypatch: pytest.MonkeyPatch) -> None:
    files, nic.files = nic.files, {}

    def appear(_: float) -> None:
        nic.files = files

    monkeypatch.setattr(ports.time, "sleep", appear)
    assert apply(nic, settings(), 60).problems == []


def source(name: str, gives: str) -> Any:
    return next(each for each in BACKENDS[name].sources if gives in each.gives)


GARBLED = ["", "DCBX mode: OS controlled\n", "Priority trust state: dscp", "{", "[]\n", '{"prio_pfc": [true]}\n']


@pytest.mark.parametrize("text", GARBLED)
@pytest.mark.parametrize(
    ("name", "gives"), [("doca", "lossless_priorities"), ("doca", "buffers"), ("inbox", "lossless_priorities")]
)
def test_output_that_is_cut_off_or_no_such_thing_is_unreadable(text: str, name: str, gives: str) -> None:
    with pytest.raises(Unreadable):
        source(name, gives).parse({"x": text})


def test_points_of_dcqcn_that_lack_a_priority_are_unreadable() -> None:
    files = {
        f"/sys/class/net/rdma0/ecn/roce_{point}/enable/{number}": "0\n" for point in ("np", "rp") for number in range(8)
    }
    assert source("doca", "dcqcn").parse(files) == {"dcqcn": {"notification": [], "reaction": []}}
    files.popitem()
    with pytest.raises(Unreadable, match="15 files"):
        source("doca", "dcqcn").parse(files)


def test_recorded_mlnx_qos_is_read(recorded: Any) -> None:
    text = recorded("roce/mlnx_qos-dscp-pfc3.txt")
    values = source("doca", "trust").parse({"mlnx_qos -i eth0": text})
    assert (values["dcbx"], values["trust"], values["lossless_priorities"]) == ("firmware", "dscp", [3])
    assert (values["dscp_priority"][26], len(values["dscp_priority"])) == (3, 64)
    buffers = source("doca", "buffers").parse({"mlnx_qos -i eth0": text})["buffers"]
    assert buffers == {"sizes_bytes": [130944, 130944, *[0] * 6], "of_priority": [0, 0, 0, 1, 0, 0, 0, 0]}


def test_files_are_written_below_the_root_and_never_made(tmp_path: Path) -> None:
    (tmp_path / "mtu").write_text("15000\n")
    machine = LocalMachine(root=str(tmp_path))
    assert machine.write("/mtu", "9000") == ""
    assert (tmp_path / "mtu").read_text() == "9000\n"
    assert machine.write("/other", "1") == "No such file or directory"
    assert not (tmp_path / "other").exists()


def test_timed_out_tool_counts_as_unread(nic: Nic) -> None:
    nic._mlnx_qos = lambda words: Output(rc=None, timed_out=True, error="mlnx_qos: no answer within 30 s")  # type: ignore[method-assign]
    assert any("trust could not be read" in text and "no answer within" in text for text in applied(nic).problems)
