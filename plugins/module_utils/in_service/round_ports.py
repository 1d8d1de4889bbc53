"""While a round of tests runs on a node, its ports are closed to all but the round's nodes, by a table of nftables.

PyTorch's store and the data ports of gloo, NCCL and perftest ask nobody who they are, and the kernel gives out most of
their numbers. So each port is closed on which no service of the host listened before the round. A round has its nodes
to itself: no user is served there meanwhile. Connection tracking is not used, as it would slow down what is measured:
only packets that open a TCP connection are looked at.

The prolog of the round's job makes the table and its epilog removes it. If one of them is killed, the next prolog of
any job does. A reboot forgets the table, and slurmd's unit removes one that the site's own rules were saved with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..host.host import Host, Output, Unreadable
from ..host.host_lists import expand
from ..host.whole_files import replace_file
from ..slurm.slurm_conf import ConfigurationError, node_addresses
from ..words.finding import INCOMPLETE, Finding

CHECK = "round_ports"
MUSTER = "muster"
TABLE = "inet muster_round"
# The rules that were set last. On a tmpfs: after a boot neither they nor the table are there.
RULES = "round_ports.nft"
# Whoever has a lower number is a service of the host (login.defs(5), UID_MIN).
PEOPLE_FROM_UID = 1000
NFT_SECONDS = 5.0
_LISTEN = "0A"
# 127.0.0.0/8, ::1 and ::ffff:127.0.0.0/104 as a little-endian kernel writes them.
_LOOPBACK_6, _MAPPED_6 = "00000000000000000000000001000000", "0000000000000000FFFF0000"


def before_job(host: Host, run_directory: Path, environment: Mapping[str, str]) -> list[Finding]:
    """Close the ports for a round's job, open what an earlier one left closed for any other; say what went wrong."""
    if environment.get("SLURM_JOB_USER") != MUSTER:
        return _open(host, run_directory)
    try:
        members = _members(host, environment)
        services, local = _services(host, environment.get("SLURM_JOB_UID", ""))
        return _close(host, run_directory, rules(members, services, local))
    except (Unreadable, ConfigurationError, ValueError, OSError) as exc:
        return [_finding(f"ports cannot be closed for the round: {exc}")]


def after_job(host: Host, run_directory: Path, environment: Mapping[str, str]) -> list[Finding]:
    """Open the ports after a round's job; say what went wrong."""
    return _open(host, run_directory) if environment.get("SLURM_JOB_USER") == MUSTER else []


def rules(members: Iterable[str], services: Iterable[int], local: Iterable[int]) -> str:
    """Return what ``nft -f`` takes to put the table in the place of an earlier one, all at once.

    ``members`` are the addresses of the round's nodes. ``services`` are the ports on which services listen, ``local``
    those on which they listen for this host alone. People who are logged in on a member are strangers, too.
    """
    addresses = sorted(set(members))
    person = f"meta skuid >= {PEOPLE_FROM_UID} counter drop"
    connecting = ["    meta l4proto != tcp accept", "    tcp flags & (syn | ack) != syn accept"]
    lines = [
        f"table {TABLE}",
        f"delete table {TABLE}",
        f"table {TABLE} {{",
        *_set("members", "ipv4_addr", [each for each in addresses if ":" not in each]),
        *_set("members6", "ipv6_addr", [each for each in addresses if ":" in each]),
        *_set("services", "inet_service", sorted(set(services))),
        *_set("local", "inet_service", sorted(set(local))),
        "  chain input {",
        "    type filter hook input priority filter; policy accept;",
        *connecting,
        '    iif "lo" accept',
        "    tcp dport @services accept",
        "    ip saddr @members accept",
        "    ip6 saddr @members6 accept",
        "    counter drop",
        "  }",
        "  chain output {",
        "    type filter hook output priority filter; policy accept;",
        *connecting,
        "    tcp dport @services accept",
        f'    oif "lo" tcp dport != @local {person}',
        f'    oif != "lo" ip daddr @members {person}',
        f'    oif != "lo" ip6 daddr @members6 {person}',
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _set(name: str, kind: str, elements: Sequence[object]) -> list[str]:
    listed = [f"    elements = {{ {', '.join(map(str, elements))} }}"] if elements else []
    return [f"  set {name} {{", f"    type {kind}", *listed, "  }"]


def _members(host: Host, environment: Mapping[str, str]) -> list[str]:
    """Return the addresses of the job's nodes, by the configuration that slurmd has here."""
    import ipaddress  # noqa: PLC0415 -- start-up budget

    nodes = expand(environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST", ""))
    path = environment.get("SLURM_CONF", "")
    if not nodes or not path:
        raise Unreadable(f"SLURM_NODELIST gives {len(nodes)} nodes, SLURM_CONF is {path!r}")
    known = node_addresses(_text(host, path))
    missing = [node for node in nodes if not known.get(node)]
    if missing:
        raise Unreadable(f"{path} has no address of {', '.join(missing[:10])}")
    # nft would look names up, and wait for a name server.
    return [str(ipaddress.ip_address(address)) for node in nodes for address in known[node]]


def _services(host: Host, uid: str) -> tuple[set[int], set[int]]:
    """Return the ports on which services listen: for other hosts, and for this one alone. ``uid`` is no service's."""
    services: set[int] = set()
    local: set[int] = set()
    # A host without IPv6 has but the first of them.
    sockets = _text(host, "/proc/net/tcp").splitlines()[1:] + host.read("/proc/net/tcp6").stdout.splitlines()[1:]
    for line in sockets:
        words = line.split()
        if len(words) < 8:
            raise Unreadable(f"/proc/net/tcp: {line[:80]!r}, expected a socket")
        if words[3] == _LISTEN and words[7] != uid and int(words[7]) < PEOPLE_FROM_UID:
            address, _, port = words[1].partition(":")
            (local if _loopback(address) else services).add(int(port, 16))
    return services, local


def _text(host: Host, path: str) -> str:
    output = host.read(path)
    if output.rc != 0:
        raise Unreadable(output.error or f"{path} cannot be read")
    return output.stdout


def _loopback(address: str) -> bool:
    mapped = address.startswith(_MAPPED_6)
    return address == _LOOPBACK_6 or ((len(address) == 8 or mapped) and address.endswith("7F"))


def _close(host: Host, run_directory: Path, text: str) -> list[Finding]:
    path = run_directory / RULES
    first = not path.exists()
    # Before the table, so that it is known wherever this is killed.
    replace_file(path, text, 0o600)
    done = host.run(["nft", "-f", str(path)], NFT_SECONDS)
    if done.rc == 0:
        return []
    if first and not done.timed_out:
        # All of a file takes effect, or nothing of it.
        path.unlink()
    return [_finding(f"nft cannot close the ports for the round: {_said(done)}")]


def _open(host: Host, run_directory: Path) -> list[Finding]:
    path = run_directory / RULES
    if not path.exists():
        return []
    done = host.run(["nft", f"table {TABLE}; delete table {TABLE}"], NFT_SECONDS)
    if done.rc != 0:
        return [_finding(f"nft cannot open the ports that a round has closed: {_said(done)}")]
    path.unlink()
    return []


def _said(done: Output) -> str:
    return done.error or " ".join(done.stderr.split())[:300]


def _finding(reason: str) -> Finding:
    return Finding(CHECK, "host", INCOMPLETE, None, None, "", reason, "investigate")
