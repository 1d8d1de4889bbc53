"""IMEX of a host: its own faults, other nodes' faults, and what nobody can tell."""

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import imex
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.imex import Domain, Node, parse
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvidia_smi import Gpus

from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

DRIVER = Gpus("570.86.15", ())
FOUND = parse(Output(healthy("imex")))
OWN = 0


@pytest.fixture
def declared(expect):
    """The class with a domain of 18 nodes and one channel."""
    expect["nvlink"].update(fabric_manager=False, domain={"hosts": 18, "imex": {"nodes": 18, "channels": 1}})
    return expect


def of_nodes(expect, nodes):
    expect["nvlink"]["domain"]["imex"]["nodes"] = nodes
    return expect


def domain(count, away=(), words=None, state=None):
    """Return a domain as its first node sees it; what concerns nodes that are ``away`` is lost."""
    nodes = tuple(
        Node(f"10.4.0.{number}", number == OWN, "UNAVAILABLE" if number in away else "READY", "570.86.15")
        for number in range(count)
    )
    every = {(one, other): "C" for one in range(count) for other in range(count)}
    every.update({pair: "R" for pair in every if pair[1] in away})
    every.update({pair: "I" for pair in every if pair[0] in away})
    every.update(words or {})
    return Domain(nodes, every, state or ("UP" if set(every.values()) == {"C"} else "DEGRADED"))


def judged(expect, report=DRIVER, **changed):
    (finding,) = imex.decide({"imex": replace(FOUND, **changed), "nvidia_smi": report}, typed(expect))
    assert finding.subject == "host"
    assert (finding.action == "none") == (finding.verdict == "pass")
    return finding


def test_healthy_host_passes_without_a_remark(declared):
    finding = judged(declared)
    assert (finding.verdict, finding.measured, finding.reason) == ("pass", "connected with 17 of 17 other nodes", "")


@pytest.mark.parametrize(
    ("gone", "domain", "subjects"),
    [
        ("", {"hosts": 18, "imex": {"nodes": None, "channels": 1}}, ["host"]),
        ("", {"hosts": 18, "imex": None}, []),
        ("", None, []),
        ("nvlink", None, []),
        ("gpu", {"hosts": 18, "imex": {"nodes": None, "channels": 1}}, []),
    ],
)
def test_owed_by_a_class_that_keeps_the_service_running(gone, domain, subjects, expect):
    expect["nvlink"].update(fabric_manager=False, domain=domain)
    if gone:
        expect[gone] = None
    if gone == "gpu":
        expect["gpu_stress"] = None
    assert imex.subjects(typed(expect)) == subjects


@pytest.mark.parametrize(
    ("changed", "verdict", "why"),
    [
        ({"load": "not-found", "active": "inactive", "sub": "dead"}, "fail", "is not-found: install nvidia-imex"),
        ({"load": "masked"}, "fail", "is masked"),
        ({"active": "failed", "sub": "failed", "result": "exit-code", "exit_status": "1"}, "fail", "result exit-code"),
        ({"active": "activating", "sub": "start"}, "fail", "activating (start)"),
        ({"active": "active", "sub": "exited"}, "fail", "active (exited)"),
    ],
)
def test_service(changed, verdict, why, declared):
    finding = judged(declared, service=replace(FOUND.service, **changed), own=None, domain="not asked")
    assert finding.verdict == verdict and why in finding.reason


@pytest.mark.parametrize(
    ("version", "driver", "verdict"),
    [
        ("570.86.15", "570.86.15", "pass"),
        ("570.86.16", "570.86.15", "fail"),
        (None, "570.86.15", "incomplete"),
        ("570.86.15", None, "incomplete"),
    ],
)
def test_version_is_the_drivers(version, driver, verdict, declared):
    assert judged(declared, Gpus(driver, ()), version=version).verdict == verdict


@pytest.mark.parametrize(
    ("channels", "wanted", "verdict"),
    [
        ({0}, 1, "pass"),
        ({0, 1, 5}, 2, "pass"),
        (set(), 1, "fail"),
        ({0}, 2, "fail"),
        # The first is that of programs which name none.
        ({1}, 1, "fail"),
        (None, 1, "incomplete"),
    ],
)
def test_channels(channels, wanted, verdict, declared):
    declared["nvlink"]["domain"]["imex"]["channels"] = wanted
    finding = judged(declared, channels=None if channels is None else frozenset(channels))
    assert finding.verdict == verdict
    assert finding.verdict == "pass" or "channel" in finding.reason


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        ("INITIALIZING", "fail"),
        ("INIT_GPU", "fail"),
        ("SHUTTING_DOWN", "fail"),
        ("SOMETHING_NEW", "fail"),
        ("WAITING_FOR_PEERS", "incomplete"),
        ("WAITING_FOR_RECOVERY", "incomplete"),
        (None, "incomplete"),
    ],
)
def test_own_daemon_has_to_be_ready(own, verdict, declared):
    assert judged(declared, own=own).verdict == verdict
    if own:
        listed = replace(FOUND.domain.nodes[4], status=own)
        nodes = tuple(listed if node.own else node for node in FOUND.domain.nodes)
        finding = judged(declared, domain=replace(FOUND.domain, nodes=nodes))
        assert (finding.verdict, finding.measured) == (verdict, own)


def test_unread_domain_is_incomplete(declared):
    finding = judged(declared, domain="nvidia-imex-ctl: no answer within 20 s")
    assert finding.verdict == "incomplete" and "no answer within 20 s" in finding.reason


def test_failure_is_told_before_what_could_not_be_read(declared):
    assert judged(declared, version=None, channels=frozenset()).verdict == "fail"


@pytest.mark.parametrize(
    ("listed", "wanted", "verdict"),
    [(18, 18, "pass"), (17, 18, "fail"), (19, 18, "fail"), (1, 18, "fail"), (1, 1, "pass"), (4, None, "pass")],
)
def test_number_of_nodes(listed, wanted, verdict, declared):
    assert judged(of_nodes(declared, wanted), domain=domain(listed)).verdict == verdict


@pytest.mark.parametrize(
    ("away", "verdict"),
    [
        ([2], "pass"),
        # Of four others two are half, three most of them.
        ([2, 3], "pass"),
        ([2, 3, 4], "incomplete"),
        ([1, 2, 3, 4], "incomplete"),
    ],
)
def test_nodes_that_do_not_answer_are_at_fault_themselves(away, verdict, declared):
    finding = judged(of_nodes(declared, 5), domain=domain(5, away))
    assert finding.verdict == verdict
    assert all(f"10.4.0.{number} (UNAVAILABLE)" in finding.reason for number in away)


def test_host_that_alone_reaches_nobody_is_cut_off(declared):
    # Node 1 answers, and is connected with the three that do not answer this host.
    seen = {(1, number): "C" for number in (2, 3, 4)}
    finding = judged(of_nodes(declared, 5), domain=domain(5, [2, 3, 4], seen))
    assert finding.verdict == "fail" and "cut off" in finding.reason
    finding = judged(of_nodes(declared, 5), domain=domain(5, [2, 3, 4], {(1, 2): "C", (1, 3): "C"}))
    assert finding.verdict == "incomplete"


def test_host_without_a_connection_to_most_is_cut_off(declared):
    words = {(0, number): "!V!" for number in (1, 2, 3)}
    finding = judged(of_nodes(declared, 5), domain=domain(5, (), words))
    assert (finding.verdict, finding.measured) == ("fail", "connected with 1 of 4 other nodes")
    assert "cut off" in finding.reason and "10.4.0.3 (refused, versions differ)" in finding.reason


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("!V!", "versions differ"),
        ("!M!", "IMEX_NODE_CONFIG_FILE"),
        ("!A!", "authentication failed"),
        ("!R!", "not yet connected"),
        ("N", "never connected"),
        ("R", "recovering"),
        ("D", "connection lost"),
        ("A", "authenticating"),
        ("I", "no answer"),
        ("X", "(X)"),
    ],
)
@pytest.mark.parametrize("pair", [(0, 2), (2, 0)])
def test_connection_that_only_this_host_lacks_is_its_fault(word, why, pair, declared):
    finding = judged(of_nodes(declared, 5), domain=domain(5, (), {pair: word}))
    assert finding.verdict == "fail" and "10.4.0.2 (" in finding.reason and why in finding.reason


@pytest.mark.parametrize(
    ("lacking", "verdict"),
    [
        # Beside this host there are four others: two are half, three most of them.
        ([1, 3], "fail"),
        ([1, 3, 4], "pass"),
    ],
)
def test_node_that_lacks_most_others_too_is_at_fault(lacking, verdict, declared):
    words = {(number, 2): "!M!" for number in (0, *lacking)}
    finding = judged(of_nodes(declared, 6), domain=domain(6, (), words))
    assert finding.verdict == verdict and "10.4.0.2" in finding.reason


def test_two_nodes_without_a_connection_are_both_at_fault(declared):
    assert judged(of_nodes(declared, 2), domain=domain(2, (), {(0, 1): "!V!"})).verdict == "fail"


def test_own_fault_is_told_beside_anothers(declared):
    words = {(0, 2): "N"}
    finding = judged(of_nodes(declared, 6), domain=domain(6, [5], words))
    assert finding.verdict == "fail" and "10.4.0.2" in finding.reason and "10.4.0.5" not in finding.reason


def test_what_two_others_have_between_them_is_not_this_hosts(declared):
    assert judged(of_nodes(declared, 5), domain=domain(5, (), {(2, 3): "!V!"})).verdict == "pass"


@pytest.mark.parametrize("state", ["DEGRADED", "DOWN"])
def test_state_that_nothing_explains_is_incomplete(state, declared):
    assert judged(of_nodes(declared, 5), domain=domain(5, (), None, state)).verdict == "incomplete"
