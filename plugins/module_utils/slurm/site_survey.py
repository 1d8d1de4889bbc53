"""The site's own Slurm, read on one of its controllers and held against what the fleet declares; nothing is changed."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..host.host import Host
from ..words.errors import MusterError
from . import site_slurm
from .gate_file import GATE_FILE
from .scontrol_output import SlurmGateError
from .site_slurm import ACCEPTANCE, MUSTER, Files, Wanted
from .slurm_accounts import AccountsError, Database
from .slurm_conf import keys_of
from .slurm_controller import Controller


@dataclass(frozen=True)
class Survey:
    """What the site's Slurm lacks for all nodes, and for single ones by their names."""

    lacking: Sequence[str]
    nodes: Mapping[str, Sequence[str]]


def survey(host: Host, wanted: Wanted, uid: int | None, timeout_seconds: float, gate: str = GATE_FILE) -> Survey:
    """Return everything that is lacking, in the order of the questions; what cannot be read is lacking too.

    ``uid`` is the number of user muster on this controller, None where it has none, and ``gate`` the gate's file.
    """
    controller = Controller(host, timeout_seconds)
    try:
        settings, words = controller.settings(), controller.partition_words()
        partitions, nodes = controller.partitions(), controller.configured_nodes()
    except SlurmGateError as exc:
        return Survey([str(exc)], {})
    try:
        files = read_files(settings.get("SLURM_CONF", ""), settings.get("ClusterName", ""), gate)
        in_files = site_slurm.gate_lacks(files, words, wanted)
        without_address = site_slurm.addresses_lack(files, wanted)
    except MusterError as exc:
        in_files, without_address = [str(exc)], {}
    release = site_slurm.release_of(settings.get("SLURM_VERSION", ""))
    of_nodes = site_slurm.nodes_lack(nodes, partitions.get(ACCEPTANCE), release, wanted)
    lacking = [
        *site_slurm.release_lacks(settings, wanted),
        *site_slurm.settings_lack(settings, wanted),
        *site_slurm.hooks_lack(settings, wanted.hooks),
        *site_slurm.partition_lacks(words.get(ACCEPTANCE), len(wanted.nodes)),
        *in_files,
        *site_slurm.accounts_lack(settings, wanted, _users(host, settings, timeout_seconds)),
        *site_slurm.pmix_lacks(_plugins(host, settings), wanted),
        *site_slurm.user_lacks(uid, wanted),
    ]
    names = [name for name in wanted.nodes if name in of_nodes or name in without_address]
    return Survey(lacking, {name: [*of_nodes.get(name, ()), *without_address.get(name, ())] for name in names})


def read_files(conf: str, cluster: str, gate: str) -> Files:
    """Return slurm.conf and all that it includes; raises SlurmGateError where one of them cannot be read."""
    if not conf.startswith("/"):
        raise SlurmGateError(f"SLURM_CONF: is {conf or 'not told'}, expected the path of slurm.conf on this controller")
    texts: dict[str, str] = {}
    own = ""
    left = [conf]
    while left:
        path = os.path.realpath(left.pop())
        if path in texts:
            continue
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError as exc:
            raise SlurmGateError(f"{path}: {exc.strerror}, expected slurm.conf or a file that it includes") from exc
        own = own or text
        texts[path] = text if path == os.path.realpath(gate) else joined(text)
        for line in keys_of(texts[path]).get("include", []):
            name = line.partition(" ")[2].strip() or line.partition("\t")[2].strip()
            # A bare name is one beside slurm.conf, and %c the cluster's.
            left.append(os.path.join(os.path.dirname(conf), name.replace("%c", cluster)))  # noqa: PTH118, PTH120 -- strings
    return Files(texts, own, os.path.realpath(gate))


def joined(text: str) -> str:
    """Return a text as Slurm reads it: without comments, then each line that ends with a backslash with the next."""
    return re.sub(r"\\[^\S\n]*\n", "", re.sub(r"(?<!\\)#.*", "", text))


def _users(host: Host, settings: Mapping[str, str], timeout_seconds: float) -> Sequence[str] | None:
    """Return the users with an account; None where nobody asks for one, or the database does not tell."""
    cluster = settings.get("ClusterName", "")
    if not cluster or not site_slurm.enforces_accounts(settings):
        return None
    try:
        read = Database(host, cluster, timeout_seconds).read()
    except AccountsError:
        return None
    return [each.user for each in read.associations if each.user]


def _plugins(host: Host, settings: Mapping[str, str]) -> Sequence[str]:
    places = [place for place in settings.get("PluginDir", "").split(":") if place.startswith("/")]
    return [path.rpartition("/")[2] for path in host.paths(*(f"{place}/mpi_*.so" for place in places))]


def muster_uid() -> int | None:
    """Return the number of user muster on this host, None where it has none."""
    try:
        return pwd.getpwnam(MUSTER).pw_uid
    except KeyError:
        return None
