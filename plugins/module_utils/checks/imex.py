"""Is nvidia-imex of the driver's version ready, connected with the nodes of its NVLink domain, with channels for users?

Without it a program cannot use GPU memory of the rack's other hosts. A node that is not ready, or has no connection
with most of the others, is at fault itself: the others pass, with a remark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import missing
from ..probes.imex import CHANNELS, CONNECTED, READY, Domain, Imex
from ..probes.nvidia_smi import Gpus
from ..words.expectations import IMEX_SERVICE, Expectations, stated
from ..words.expectations import Imex as Wanted
from ..words.finding import FAIL, INCOMPLETE, PASS, Finding, Value

NAME = "imex"
RULES = 3
PROBES: tuple[str, ...] = ("imex", "nvidia_smi")

# The legend of nvidia-imex-ctl -N.
_LETTERS = {
    "I": "no answer",
    "N": "never connected",
    "R": "connection lost, recovering",
    "D": "connection lost",
    "A": "authenticating",
    "!V!": "refused, versions differ",
    "!M!": "refused, lists of nodes differ (IMEX_NODE_CONFIG_FILE)",
    "!A!": "refused, authentication failed",
    "!R!": "not yet connected",
}
# States that last as long as other nodes make them.
_WAITING = ("WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, if its class keeps the service running."""
    domain = expect.nvlink.domain if expect.nvlink else None
    return ["host"] if expect.gpu and domain and domain.imex else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge service, version, channels, the daemon, then its domain; the first failure is told."""
    found: Imex = values["imex"]
    report: Gpus = values["nvidia_smi"]
    wanted = stated(stated(stated(expect.nvlink).domain).imex)
    answers = [*_service(found), *_version(found, report), *_channels(found, wanted), *_daemon(found, wanted)]
    for verdict in (FAIL, INCOMPLETE, PASS):
        for answer in answers:
            if answer.verdict == verdict:
                return [answer]
    return []


def _finding(verdict: str, measured: Value, expected: Value, why: str, unit: str = "") -> Finding:
    return Finding(NAME, "host", verdict, measured, expected, unit, why, "none" if verdict == PASS else "investigate")


def _service(found: Imex) -> Iterator[Finding]:
    service, wanted = found.service, "active (running)"
    if service.load != "loaded":
        why = f"{IMEX_SERVICE} is {service.load}: install nvidia-imex of the driver's version"
        yield _finding(FAIL, service.load, wanted, why)
    elif (service.active, service.sub) != ("active", "running"):
        state = f"{service.active} ({service.sub})"
        why = f"{IMEX_SERVICE} is {state}, result {service.result}, exit status {service.exit_status}"
        yield _finding(FAIL, state, wanted, why)


def _version(found: Imex, report: Gpus) -> Iterator[Finding]:
    why = missing(nvidia_imex_version=found.version, driver_version=report.driver)
    if why:
        yield _finding(INCOMPLETE, found.version, report.driver, why)
    elif found.version != report.driver:
        why = f"nvidia-imex is {found.version}, driver {report.driver}: both have to be of one version"
        yield _finding(FAIL, found.version, report.driver, why)


def _channels(found: Imex, wanted: Wanted) -> Iterator[Finding]:
    if found.channels is None:
        yield _finding(INCOMPLETE, None, wanted.channels, f"could not be read: {CHANNELS}*", "channels")
        return
    gone = [number for number in range(wanted.channels) if number not in found.channels]
    if gone:
        why = f"there is no {CHANNELS}{gone[0]}: without a channel users' programs share no GPU memory between hosts"
        yield _finding(FAIL, len(found.channels), wanted.channels, why, "channels")


def _daemon(found: Imex, wanted: Wanted) -> Iterator[Finding]:
    domain = found.domain
    listed = None if isinstance(domain, str) else next(node.status for node in domain.nodes if node.own)
    odd = [state for state in (found.own, listed) if state not in (None, READY)]
    if odd:
        waits = odd[0] in _WAITING
        why = f"nvidia-imex is {odd[0]} on this host" + (": other nodes keep it waiting" if waits else "")
        yield _finding(INCOMPLETE if waits else FAIL, odd[0], READY, why)
    if found.own is None:
        yield _finding(INCOMPLETE, None, READY, "could not be read: state of nvidia-imex on this host")
    if isinstance(domain, str):
        yield _finding(
            INCOMPLETE, None, wanted.nodes, f"the NVLink domain's nodes could not be read: {domain}", "nodes"
        )
    elif wanted.nodes is not None and len(domain.nodes) != wanted.nodes:
        why = f"nvidia-imex lists {len(domain.nodes)} nodes, the class has {wanted.nodes}: see IMEX_NODE_CONFIG_FILE"
        yield _finding(FAIL, len(domain.nodes), wanted.nodes, why, "nodes")
    else:
        yield _peers(domain)


def _peers(domain: Domain) -> Finding:
    """Judge the connections: this host's own fault, what nobody can tell, or a remark on other nodes."""
    nodes = domain.nodes
    (own,) = [number for number, node in enumerate(nodes) if node.own]
    others = [number for number in range(len(nodes)) if number != own]
    ready = [number for number in others if nodes[number].status == READY]
    away = [number for number in others if number not in ready]
    apart = [number for number in ready if not _joined(domain, own, number)]
    theirs = [number for number in apart if _lacks_most(domain, number, ready)]
    unreached = [*away, *apart]
    measured = f"connected with {len(others) - len(unreached)} of {len(others)} other nodes"
    expected = "connected with all that are ready"
    told = _told(domain, own, unreached)
    alive = [number for number in unreached if number in ready or _seen(domain, number, ready)]
    if 2 * len(alive) > len(others):
        return _finding(FAIL, measured, expected, f"this host is cut off from its NVLink domain: {told}")
    if ours := [number for number in apart if number not in theirs]:
        why = f"no connection with {_told(domain, own, ours)}, which others are connected with"
        return _finding(FAIL, measured, expected, why)
    if 2 * len(unreached) > len(others):
        why = f"most nodes of the NVLink domain do not answer, and none tells whether this host is cut off: {told}"
        return _finding(INCOMPLETE, measured, expected, why)
    whole = not unreached and all(word == CONNECTED for word in domain.connections.values())
    if whole and domain.state != "UP":
        why = f"the NVLink domain is {domain.state}, though every node is ready and connected"
        return _finding(INCOMPLETE, domain.state, "UP", why)
    return _finding(PASS, measured, expected, f"other nodes of the NVLink domain: {told}" if told else "")


def _joined(domain: Domain, one: int, other: int) -> bool:
    return {domain.connections[one, other], domain.connections[other, one]} == {CONNECTED}


def _lacks_most(domain: Domain, number: int, ready: Sequence[int]) -> bool:
    """Return whether a node has no connection with most of the nodes that are ready, beside this host."""
    others = [each for each in ready if each != number]
    return 2 * sum(not _joined(domain, each, number) for each in others) > len(others)


def _seen(domain: Domain, number: int, ready: Sequence[int]) -> bool:
    return any(domain.connections[each, number] == CONNECTED for each in ready)


def _told(domain: Domain, own: int, numbers: Sequence[int]) -> str:
    return ", ".join(f"{domain.nodes[number].address} ({_state(domain, own, number)})" for number in sorted(numbers))


def _state(domain: Domain, own: int, number: int) -> str:
    """Return what keeps a node from this host: its state, or that of the connection, either way."""
    if domain.nodes[number].status != READY:
        return domain.nodes[number].status
    words = [domain.connections[own, number], domain.connections[number, own]]
    word = next(word for word in words if word != CONNECTED)
    return _LETTERS.get(word, word)
