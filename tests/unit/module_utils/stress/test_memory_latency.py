"""Memory latency of each NUMA node: what is run, what is read, and how the nodes compare."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import memory_latency as check
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.stress import memory_latency as stress
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings

from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

TEXT = healthy("memory_latency")


def verdicts(expect, *measured):
    values = {"memory_latency": {f"numa {number}": found for number, found in enumerate(measured)}}
    return [finding.verdict for finding in check.decide(values, typed(expect))]


def test_one_cpu_of_each_numa_node_follows_a_list_larger_than_its_caches(fake_host, expect):
    fake_host.outputs["stress-ng"] = Output("")
    for node, cpus in enumerate(("0-47,96-143", "48-95,144-191")):
        fake_host.outputs[f"/sys/devices/system/node/node{node}/cpulist"] = Output(f"{cpus}\n")
    stress.collect(fake_host, typed(expect), 120, NoSettings())
    what = "stress-ng --randlist 1 --randlist-compact --randlist-items 4000000"
    assert [" ".join(argv) for argv in fake_host.runs] == [
        f"{what} --taskset {cpu} --metrics --timeout 60s" for cpu in ("0", "48")
    ]


def test_numa_node_without_cpus_is_said_of_that_node(fake_host, expect):
    fake_host.outputs["/sys/devices/system/node/node0/cpulist"] = Output(rc=None, error="No such file")
    fake_host.outputs["/sys/devices/system/node/node1/cpulist"] = Output("many\n")
    found = stress.parse(stress.collect(fake_host, typed(expect), 120, NoSettings()))
    assert "No such file" in found["numa 0"] and "'many'" in found["numa 1"]


def test_healthy_nodes_are_read_and_pass(expect):
    found = stress.parse(Output(TEXT))
    assert found == {"numa 0": stress.Traversals(64, 60.41), "numa 1": stress.Traversals(62, 60.41)}
    first, _ = check.decide({"memory_latency": found}, typed(expect))
    assert (first.verdict, first.measured) == ("pass", 236.0)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("randlist                64", "randlist                19", "19 traversals"),
        ("randlist                64", "randlist               n/a", "0 rows"),
        ("successful run", "unsuccessful run", "status 0"),
        ("info:  [4101] dispatching", "warn:  [4101] cannot set affinity", "cannot set affinity"),
        ("info:  [4101] successful", "info:  [4101] x", "no end of the run"),
    ],
)
def test_numa_node_that_was_not_measured_says_why(old, new, why):
    found = stress.parse(Output(TEXT.replace(old, new, 1)))
    assert why in found["numa 0"] and found["numa 1"] == stress.Traversals(62, 60.41)


@pytest.mark.parametrize("text", ["", "stress-ng: info\n", "\x00" * 9])
def test_what_has_no_numa_node_is_unreadable(text):
    with pytest.raises(Unreadable):
        stress.parse(Output(text))


@pytest.mark.parametrize(
    ("counts", "limit", "expected"),
    [
        ((115, 100), None, ["pass", "pass"]),
        ((116, 100), None, ["pass", "fail"]),
        ((100, 100), 250, ["pass", "pass"]),
        ((100, 99), 250, ["pass", "fail"]),
        ((100, "too short"), None, ["incomplete", "incomplete"]),
        ((100, "too short"), 250, ["pass", "incomplete"]),
    ],
)
def test_class_limit_and_spread(expect, counts, limit, expected):
    expect["memory_latency"]["ns_per_item"] = limit
    # 100 traversals of 4,000,000 items in 100 s are 250 ns for each.
    measured = [found if isinstance(found, str) else stress.Traversals(found, 100.0) for found in counts]
    assert verdicts(expect, *measured) == expected


def test_class_without_it_owes_nothing(expect):
    assert check.subjects(typed(expect)) == ["numa 0", "numa 1"]
    assert check.subjects(typed({**expect, "memory_latency": None})) == []
