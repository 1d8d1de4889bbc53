"""Shards on a file system with and without direct access, where nodes stand, and strangers at the rendezvous."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.save_test import storage_shard
from ansible_collections.muster.cluster.plugins.module_utils.save_test.storage_rendezvous import (
    GROUP_NODES,
    Member,
    Rendezvous,
    RendezvousError,
    places_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.save_test.storage_shard import (
    PAGE,
    Expected,
    Shape,
    Shard,
    storm,
)
from ansible_collections.muster.cluster.plugins.module_utils.save_test.storage_test import percentile
from ansible_collections.muster.cluster.plugins.module_utils.save_test.storage_workers import hanging_in


@pytest.mark.parametrize(
    ("shard_bytes", "block_bytes", "blocks"),
    [
        (1, 2 * PAGE, 1),
        (2 * PAGE, 2 * PAGE, 1),
        (3 * PAGE - 1, 3 * PAGE, 1),
        (storage_shard.BLOCK_BYTES, storage_shard.BLOCK_BYTES, 1),
        (storage_shard.BLOCK_BYTES + 1, storage_shard.BLOCK_BYTES, 2),
        # 70e9 parameters of 14 bytes over 1,024 ranks.
        (957_031_250, storage_shard.BLOCK_BYTES, 115),
    ],
)
def test_shard_has_whole_blocks_of_at_least_its_size(shard_bytes: int, block_bytes: int, blocks: int) -> None:
    shape = Shape.of(shard_bytes)
    assert (shape.block_bytes, shape.blocks) == (block_bytes, blocks)
    assert shape.total_bytes >= shard_bytes


@pytest.fixture(params=[True, False], ids=["direct", "cached"])
def direct(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system takes O_DIRECT; the test's own does or not, so what it is asked decides."""
    opened = os.open

    def refuse(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            if not request.param:
                # As Linux does it: the file is made before the flag is looked at.
                os.close(opened(path, flags & ~os.O_DIRECT, *rest))
                raise OSError(errno.EINVAL, "Invalid argument")
            flags &= ~os.O_DIRECT
        return opened(path, flags, *rest)

    monkeypatch.setattr(storage_shard.os, "open", refuse)
    return bool(request.param)


def test_shard_comes_back_as_it_was_written(tmp_path: Path, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_shard, "BLOCK_BYTES", 4 * PAGE)
    # Longer than its random memory: blocks come again under other headers.
    monkeypatch.setattr(storage_shard, "POOL_BYTES", 8 * PAGE)
    shape = Shape.of(20 * PAGE)
    shard = Shard("run a 0", shape)
    assert len(shard.checks) == 2
    wrote = shard.write(str(tmp_path / "shard"))
    assert (wrote["bytes"], wrote["direct"]) == (shape.total_bytes, direct)
    assert (tmp_path / "shard").stat().st_size == shape.total_bytes
    expected = Expected("run a 0", shape, shard.checks)
    read = expected.read(str(tmp_path / "shard"))
    assert (read["bytes"], read["direct"], read["wrong"], read["fault"]) == (shape.total_bytes, direct, 0, "")


@pytest.mark.parametrize(
    ("offset", "fault"),
    [
        (0, "block 0: its header is "),
        (PAGE - 1, "block 0: its header is "),
        (PAGE, "block 0: checksum "),
        (4 * PAGE - 1, "block 0: checksum "),
        (4 * PAGE, "block 1: its header is "),
    ],
)
def test_any_flipped_byte_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, fault: str) -> None:
    monkeypatch.setattr(storage_shard, "BLOCK_BYTES", 4 * PAGE)
    path = tmp_path / "shard"
    shard = Shard("run a 0", Shape.of(8 * PAGE))
    shard.write(str(path))
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    expected = Expected("run a 0", shard.shape, shard.checks)
    read = expected.read(str(path))
    assert read["wrong"] == 1
    assert read["fault"].startswith(fault)
    assert expected.recheck(str(path), read["wrong_blocks"]) == read["wrong_blocks"]


def test_another_ranks_shard_or_swapped_blocks_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_shard, "BLOCK_BYTES", 4 * PAGE)
    monkeypatch.setattr(storage_shard, "POOL_BYTES", 4 * PAGE)
    path = tmp_path / "shard"
    shard = Shard("run a 0", Shape.of(8 * PAGE))
    shard.write(str(path))
    assert Expected("run a 1", shard.shape, shard.checks).read(str(path))["wrong"] == 2
    data = path.read_bytes()
    path.write_bytes(data[4 * PAGE :] + data[: 4 * PAGE])
    # Both blocks have the same random part: only their headers tell.
    assert Expected("run a 0", shard.shape, shard.checks).read(str(path))["wrong"] == 2


def test_storm_times_each_call_and_leaves_nothing(tmp_path: Path) -> None:
    found = storm(str(tmp_path / "files"), 7)
    assert {operation: len(values) for operation, values in found["milliseconds"].items()} == {
        "create": 7,
        "stat": 7,
        "unlink": 7,
    }
    assert abs(found["skew_seconds"]) < 1
    assert list(tmp_path.iterdir()) == []


def test_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert percentile(values, 99) == 99.0
    assert percentile(values[:1], 99) == 1.0
    assert percentile([*values[:98], 500.0], 99) == 500.0


@pytest.mark.parametrize(
    ("stat", "state"),
    [
        ("812 (muster) D 1 2 3", "D"),
        # A name may hold anything.
        ("812 (a) R (b) S 1 2", "S"),
        ("812 (muster", ""),
        ("", ""),
    ],
)
def test_state_of_a_blocked_process_is_read(tmp_path: Path, stat: str, state: str) -> None:
    place = tmp_path / "812"
    place.mkdir()
    (place / "stat").write_text(stat)
    (place / "wchan").write_text("rpc_wait_bit_killable")
    assert hanging_in(812, str(tmp_path)) == (state, "rpc_wait_bit_killable")
    assert hanging_in(813, str(tmp_path)) == ("", "")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 32, 33, 65, 1000])
def test_everybody_reads_and_is_read_by_one_other(count: int) -> None:
    addresses = {f"gpu-{number:04}": f"10.0.0.{number}" for number in range(count)}
    places = places_of(addresses, addresses)
    if count == 1:
        assert places["gpu-0000"]["reads"] == places["gpu-0000"]["read_by"] == ""
        return
    assert sorted(place["reads"] for place in places.values()) == sorted(addresses)
    # Nobody is asked to read for two.
    assert sorted(place["second"] for place in places.values()) == (sorted(addresses) if count > 2 else ["", ""])
    for name, place in places.items():
        assert place["reads"] != name
        assert places[place["reads"]]["read_by"] == name
        assert place["second"] not in (name, place["read_by"])
        assert 2 <= place["group_size"] <= GROUP_NODES
    groups: dict[str, list[int]] = {}
    for place in places.values():
        groups.setdefault(place["group_address"], []).append(place["group_rank"])
        assert sorted(groups[place["group_address"]]) == groups[place["group_address"]]
    assert all(ranks == list(range(len(ranks))) for ranks in groups.values())


def test_node_that_cannot_make_a_checkpoint_is_in_no_ones_group() -> None:
    addresses = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
    places = places_of(addresses, ["b", "c"])
    assert [places[name]["group_size"] for name in "abc"] == [1, 2, 2]
    assert {places[name]["group_address"] for name in "bc"} == {"10.0.0.2"}
    assert sorted(place["reads"] for place in places.values()) == ["a", "b", "c"]


@pytest.fixture
def rendezvous() -> Iterator[tuple[int, list[Rendezvous]]]:
    with socket.create_server(("", 0)) as server:
        port: int = server.getsockname()[1]
    servers: list[Rendezvous] = []
    yield port, servers
    for each in servers:
        each.join(10)
        assert not each.is_alive()


def meet(port: int, node: str, said: dict[str, Any], found: dict[str, Any]) -> None:
    member = Member(("127.0.0.1", port), "key", node, 5, 10)
    try:
        found[node] = member.meet("one", said.get(node), note=f"{node} says" if node == "a" else "")
    except RendezvousError as exc:
        found[node] = exc
    member.leave()


def test_strangers_are_sent_away_and_the_late_are_left_out(rendezvous: tuple[int, list[Rendezvous]]) -> None:
    port, servers = rendezvous
    servers.append(Rendezvous(port, "key", 3, join_seconds=2, limit_seconds=2))
    servers[0].start()
    for said in (b"GET / HTTP/1.0\r\n\r\n", b'{"node": "c", "key": "another", "address": ""}\n', b"\x00" * 9):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(said)
            stranger.settimeout(5)
            assert not said.endswith(b"\n") or stranger.recv(1) == b""
    found: dict[str, Any] = {}
    mail = {"a": {"b": [1, 2]}}
    threads = [threading.Thread(target=meet, args=(port, node, mail, found)) for node in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found["a"].count == found["b"].count == 2
    assert found["b"].mail == {"a": [1, 2]}
    assert found["a"].mail == {}
    assert found["b"].note == "a says"


def test_nobody_to_meet_is_an_error_in_time() -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(RendezvousError, match="no rendezvous at"):
        Member(("127.0.0.1", port), "key", "a", 0.3, 1)
