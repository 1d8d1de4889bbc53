"""The hosts that a draft learns from: archives of ``muster collect``, and hosts that are collected over SSH."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import (
    SUFFIX,
    Collected,
    HostArchiveError,
    read_archive,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.over_ssh import Ssh, fetch_archive
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import PatternError, expand

AT_ONCE = 8
# Nothing that ssh could take for an option, or a shell for more than one word.
_TARGET = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9_.:%-]*")


@dataclass(frozen=True)
class Source:
    """One host: how it was named, the file with what was collected there, and what is in it."""

    name: str
    archive: Path
    collected: Collected


def read_sources(words: Sequence[str], program: Callable[[], bytes], ssh: Ssh, place: Path) -> list[Source]:
    """Return the hosts that the words name: each the path of an archive, or [USER@]HOST by pattern.

    ``program`` gives the node program, and is called where hosts are. What is collected over SSH is kept in the
    directory ``place`` as muster-HOST-TIME.tar.gz, and nothing of it unless every host answers. Raises DraftError,
    which names every host that does not and what ssh said.
    """
    archives = [word for word in words if Path(word).is_file()]
    hosts = [host for word in words if word not in archives for host in _hosts(word)]
    _each_once((name, name) for name in (*archives, *hosts))
    sources = [_source(archive, Path(archive)) for archive in archives]
    with tempfile.TemporaryDirectory(prefix=".muster-", dir=place) as directory:
        staging = Path(directory)
        fetched = _fetched(hosts, program() if hosts else b"", ssh, staging)
        _each_once((each.collected.host, each.name) for each in (*sources, *fetched))
        return [*sources, *_kept(fetched, place)]


def _hosts(word: str) -> list[str]:
    """Return the hosts that ssh is given for a word that names no file."""
    expected = "an archive of muster collect, or [USER@]HOST such as root@10.1.16.[1-4]"
    if "/" in word or word.endswith(SUFFIX):
        raise DraftError(f"source {word!r}: no such file, expected {expected}")
    try:
        hosts = expand(word)
    except PatternError as exc:
        raise DraftError(f"source: {exc}") from exc
    if not all(map(_TARGET.fullmatch, hosts)):
        raise DraftError(f"source {word!r}: neither a file nor the name of a host, expected {expected}")
    return hosts


def _each_once(named: Iterable[tuple[str, str]]) -> None:
    """Raise DraftError for a host that has two names."""
    seen: dict[str, str] = {}
    for host, name in named:
        if host in seen:
            raise DraftError(f"host {host} is named twice, as {seen[host]} and as {name}, expected each host once")
        seen[host] = name


def _fetched(hosts: Sequence[str], content: bytes, ssh: Ssh, staging: Path) -> list[Source]:
    program = staging / "muster"
    program.write_bytes(content)

    def fetched(host: str) -> Source | DraftError:
        archive = staging / f"{host}{SUFFIX}"
        try:
            fetch_archive(host, ssh, program, archive)
            return _source(host, archive)
        except DraftError as exc:
            return exc

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(fetched, hosts))
    faults = [str(each) for each in answers if isinstance(each, DraftError)]
    if faults:
        raise DraftError("; ".join(faults))
    return [each for each in answers if isinstance(each, Source)]


def _source(name: str, archive: Path) -> Source:
    try:
        return Source(name, archive, read_archive(archive))
    except HostArchiveError as exc:
        raise DraftError(str(exc) if name == str(archive) else f"{name}: {exc}") from exc


def _kept(sources: Sequence[Source], place: Path) -> list[Source]:
    """Return the sources with their files in ``place``, where none of them may be there already."""
    paths = [place / _name_of(source.collected) for source in sources]
    for path in paths:
        if os.path.lexists(path):
            raise DraftError(f"{path}: exists, expected a new file for what was collected now")
    for source, path in zip(sources, paths, strict=True):
        # Unlike a rename it replaces nothing.
        os.link(source.archive, path)
    return [replace(source, archive=path) for source, path in zip(sources, paths, strict=True)]


def _name_of(collected: Collected) -> str:
    when = datetime.fromtimestamp(collected.time, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"muster-{collected.host}-{when}{SUFFIX}"
