"""What ``muster nic-load`` is asked for, and what cannot be taken for its answer."""

import copy
import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.rail_test.nic_load_program import Request
from ansible_collections.muster.cluster.plugins.module_utils.stress import nic_load
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings

from tests.typed import RAILS_FABRIC, typed

HEALTHY = (Path(__file__).resolve().parents[3] / "healthy" / "nic_load.json").read_text(encoding="utf-8")


def parsed(data):
    return nic_load.parse(Output(json.dumps(data)))


@pytest.fixture
def answer():
    return json.loads(HEALTHY)


def collected(host, expect):
    """Return the program's specification and time limit."""
    host.answer = Output()
    nic_load.collect(host, typed({**expect, "fabric": RAILS_FABRIC}), 90.5, NoSettings())
    program, command, spec, seconds = host.runs[-1]
    assert (program, command, seconds) == ("/usr/libexec/muster/muster", "nic-load", "--seconds=90.5")
    return json.loads(spec.removeprefix("--spec=")), host.limits[-1]


def test_collect_gives_the_program_the_rails_the_memories_and_the_way_to_gpus(fake_host, expect):
    spec, limit = collected(fake_host, expect)
    assert spec["numa"] == [0, 1]
    assert spec["rails"][0] == {"rail": 0, "address": "0000:1a:00.0", "gpu": 0}
    assert [rail["gpu"] for rail in spec["rails"]] == [0, 1] * 4
    told = (spec["message_bytes"], spec["queue_pairs"], spec["round_seconds"], spec["dmabuf"])
    assert told == (1048576, 4, 20, True)
    assert Request.read(spec, 90.5).numa == (0, 1)
    # Three memories, each round of which may wait twice for what hangs.
    assert limit > 90.5 + 3 * (20 + 60)


def test_memory_of_gpus_is_left_alone_where_the_class_does(fake_host, expect):
    expect["rdma"] = {**expect["rdma"], "gpu_direct": False}
    spec, _ = collected(fake_host, expect)
    assert {rail["gpu"] for rail in spec["rails"]} == {None}


def test_host_whose_numa_nodes_are_unreadable_is_not_loaded(fake_host, expect):
    fake_host.outputs = {name: each for name, each in fake_host.outputs.items() if "system/node" not in name}
    output = nic_load.collect(fake_host, typed({**expect, "fabric": RAILS_FABRIC}), 1, NoSettings())
    assert fake_host.runs == []
    assert output.rc is None and output.error.startswith("nic_load: NUMA nodes: ")


def test_healthy_output(answer):
    loads = parsed(answer)
    assert (loads.numa, len(loads.rails)) == ((0, 1), 8)
    rail = loads.rails["rail5"]
    assert (rail.device, rail.numa_node, rail.distances["numa 0"]) == ("mlx5_5", 1, 21)
    assert set(rail.rates) == {"numa 0", "numa 1", "gpu"}


@pytest.mark.parametrize("length", [0, 1, 200, len(HEALTHY) - 3])
def test_answer_that_is_cut_is_unreadable(length):
    with pytest.raises(Unreadable, match="expected one JSON object"):
        nic_load.parse(Output(HEALTHY[:length]))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("format",), None),
        (("rounds",), -1),
        (("numa",), ["0"]),
        (("rails",), []),
        (("rails", "rail3"), None),
        (("rails", "rail3", "device"), 3),
        (("rails", "rail3", "missing"), None),
        (("rails", "rail3", "numa_node"), -1),
        (("rails", "rail3", "distances"), {"numa 0": "near"}),
        (("rails", "rail3", "failed"), {"gpu": 0.5}),
        (("rails", "rail3", "errors"), {"gpu": "text"}),
        (("rails", "rail3", "rates", "gpu"), 380.0),
        (("rails", "rail3", "rates", "gpu", "count"), 0),
        (("rails", "rail3", "rates", "gpu", "median"), 0),
        (("rails", "rail3", "rates", "gpu", "median"), "fast"),
        (("rails", "rail3", "rates", "gpu", "median"), float("nan")),
        (("rails", "rail3", "rates", "gpu", "max"), True),
    ],
)
def test_value_of_another_kind_is_unreadable(answer, path, value):
    *parents, last = path
    place = answer
    for name in parents:
        place = place[name]
    place[last] = value
    with pytest.raises(Unreadable):
        parsed(answer)


def test_value_that_is_missing_is_unreadable(answer):
    def places(data, path=()):
        for name, value in data.items():
            yield (*path, name)
            if isinstance(value, dict) and name not in ("rails", "rates", "failed", "errors", "distances"):
                yield from places(value, (*path, name))

    paths = [*places(answer), *(("rails", "rail0", *path) for path in places(answer["rails"]["rail0"]))]
    paths += [("rails", "rail0", "rates", "gpu", name) for name in ("count", "min", "median", "max")]
    for path in paths:
        wrong = copy.deepcopy(answer)
        place = wrong
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]
        with pytest.raises(Unreadable):
            parsed(wrong)


def test_program_that_failed_is_unreadable():
    with pytest.raises(Unreadable, match="exit status 2: nothing to run"):
        nic_load.parse(Output("", "usage\nnothing to run\n", 2))
    with pytest.raises(Unreadable, match="exit status -9"):
        nic_load.parse(Output(HEALTHY, "", -9))
    with pytest.raises(Unreadable, match="line is 'x'"):
        parsed({"format": 1, "error": "line is 'x'"})
