"""nvidia-imex: its unit, its own state, the table of its domain, channels; whole, cut off, and of other forms."""

import re

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import imex

from tests.fake_host import FakeHost
from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

HEALTHY = healthy("imex")
TABLE = blocks.split(HEALTHY)["domain"].stdout
# As nvidia-imex-ctl -N of 580.178.04 lays out a domain of which one node has another list of nodes, and one is down.
ODD = r"""Connectivity Table Legend:
!M! - Node map mismatch, communication disabled.

11/28/2026 01:45:14.294
Nodes:
Node #0   * fd00::1 *          - READY                - Version: NO_GPU
Node #1   - fd00::2            - READY                - Version: NO_GPU
Node #2   - fd00::3            - UNAVAILABLE          - Version:

 Nodes From\To  0   1   2
       0        C  !M!  R
       1       !M!  C  !M!
       2        I   I   I
Domain State: DEGRADED

"""


def parsed(text):
    return imex.parse(Output(text))


def declared(expect, domain):
    expect["nvlink"].update(fabric_manager=False, domain=domain)
    return typed(expect)


DOMAIN = {"hosts": 18, "imex": {"nodes": 18, "channels": 1}}


def test_healthy_host():
    found = parsed(HEALTHY)
    assert (found.service.load, found.service.active, found.service.sub) == ("loaded", "active", "running")
    assert (found.version, found.own, found.channels) == ("570.86.15", "READY", {0})
    assert found.domain.state == "UP" and set(found.domain.connections.values()) == {"C"}
    assert [node.own for node in found.domain.nodes].index(True) == 4
    assert found.domain.nodes[4] == imex.Node("10.4.0.5", True, "READY", "570.86.15")


def test_domain_with_a_node_down_and_one_of_another_list():
    domain = imex.parse_domain(ODD)
    assert [(node.address, node.own, node.status, node.version) for node in domain.nodes] == [
        ("fd00::1", True, "READY", "NO_GPU"),
        ("fd00::2", False, "READY", "NO_GPU"),
        ("fd00::3", False, "UNAVAILABLE", ""),
    ]
    assert [domain.connections[pair] for pair in ((0, 1), (1, 0), (1, 2), (0, 2), (2, 0))] == [
        "!M!",
        "!M!",
        "!M!",
        "R",
        "I",
    ]
    assert domain.state == "DEGRADED"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (r"Node #3 .*\n", "", "17 lines of nodes"),
        (r"Node #3 ", "Node #4 ", "18 lines of nodes"),
        (r"(Node #3 .*)READY", r"\1ready", "18 lines of nodes"),
        (r"\* 10.4.0.5 \*", "- 10.4.0.5", "0 nodes are marked as this host"),
        (r"- 10.4.0.6 ", "* 10.4.0.6 *", "2 nodes are marked as this host"),
        (r"Node #[\s\S]*", "", "0 lines of nodes"),
        (r" Nodes From.*", "", "0 tables"),
        (r"\n       16 .*", "", "the table of connections"),
        (r"(\n       16 .*)C", r"\1", "the table of connections"),
        (r"Domain State.*", "", "0 lines with the domain's state"),
        (r"State: UP", "State: ", "0 lines with the domain's state"),
    ],
)
def test_domain_of_another_form_is_unreadable(old, new, why):
    text = re.sub(old, new, TABLE, count=1)
    assert text != TABLE
    with pytest.raises(Unreadable, match=re.escape(why)):
        imex.parse_domain(text)


def test_every_cut_of_the_domain_is_unreadable():
    whole = TABLE.rstrip()
    for end in range(len(whole) - len("UP")):
        with pytest.raises(Unreadable):
            imex.parse_domain(whole[:end])


def test_no_daemon_answers_is_no_state():
    said = "Query Status returned error code: 14 - failed to connect to all addresses\nQuery Status failed.\n"
    assert parsed(HEALTHY.replace("own <==\nREADY\n", f"own <==\n{said}")).own is None
    assert parsed(HEALTHY.replace("own <==", "own <== (nvidia-imex-ctl: no answer within 20 s)")).own is None


def test_domain_without_an_answer_says_why():
    limit = "nvidia-imex-ctl: no answer within 20 s"
    assert parsed(HEALTHY.replace("domain <==", f"domain <== ({limit})")).domain == limit


@pytest.mark.parametrize(
    ("text", "channels"),
    [
        ("0 in all\n", set()),
        (f"{imex.CHANNELS}0\n{imex.CHANNELS}7\n2 in all\n", {0, 7}),
        (f"{imex.CHANNELS}0\n2 in all\n", None),
        (f"{imex.CHANNELS}0\n", None),
        ("/dev/null\n1 in all\n", None),
        ("", None),
    ],
)
def test_channels(text, channels):
    before, _, _ = HEALTHY.partition("==> channels <==\n")
    assert parsed(f"{before}==> channels <==\n{text}").channels == channels


@pytest.mark.parametrize("text", ["", "not declared by the class\n", HEALTHY.replace("LoadState=loaded\n", "")])
def test_without_the_units_state_nothing_is_told(text):
    with pytest.raises(Unreadable):
        parsed(text)


def test_failed_run_is_unreadable():
    with pytest.raises(Unreadable):
        imex.parse(Output(HEALTHY, rc=1))


def test_programs_are_asked_where_the_service_is_active(expect):
    found = blocks.split(HEALTHY)
    answers = {" ".join(argv): found[name] for name, argv in _ARGV.items()}
    host = FakeHost({**answers, f"{imex.CHANNELS}0": Output()})
    output = imex.collect(host, declared(expect, DOMAIN))
    assert host.commands == [" ".join(argv) for argv in _ARGV.values()]
    assert parsed(output.stdout) == parsed(HEALTHY)


_ARGV = {"service": imex.ARGV, "version": imex.VERSION_ARGV, "own": imex.OWN_ARGV, "domain": imex.DOMAIN_ARGV}


@pytest.mark.parametrize("state", ["inactive", "failed", "activating"])
def test_daemon_that_does_not_run_is_not_asked(state, expect):
    service = blocks.split(HEALTHY)["service"].stdout.replace("=active", f"={state}")
    host = FakeHost({" ".join(imex.ARGV): Output(service)}, answer=Output(rc=None, error="not found"))
    found = imex.parse(imex.collect(host, declared(expect, DOMAIN)))
    assert host.runs == [imex.ARGV, imex.VERSION_ARGV]
    assert (found.service.active, found.version, found.own) == (state, None, None)
    assert found.domain == "not asked, as the service is not active" and found.channels == set()


@pytest.mark.parametrize("domain", [None, {"hosts": 18, "imex": None}])
def test_nothing_is_asked_where_the_class_declares_no_service(domain, expect):
    host = FakeHost()
    if domain:
        expect = declared(expect, domain)
    assert imex.collect(host, typed(expect)) == imex.NOT_DECLARED
    assert host.runs == []
