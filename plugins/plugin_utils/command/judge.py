"""``muster judge``: what saved outputs say, with a hardware class, a host's expectations, or without any."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import HostArchiveError
from ansible_collections.muster.cluster.plugins.module_utils.commands import judge_command
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import SavedError
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, one_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.finding_lines import lines_of
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_files import saved_in
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_verdicts import judged

from .dispatch import Answer, CommandError

_UNDECLARED = "(judged without a class: --class NAME or --expect FILE says what the host must be)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which outputs are judged, and against what."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="file as people save it (any tool's, several in one, .gz), - for standard input, directory or archive of "
        "such files, archive of muster collect, or directory of raw outputs beside evidence",
    )
    judge_command.add_choices(parser)
    against = parser.add_mutually_exclusive_group()
    names = ", ".join(shipped_classes())
    against.add_argument("--class", dest="hardware_class", metavar="NAME", help=f"{names}, or a class of --fleet")
    against.add_argument(
        "--expect", metavar="FILE", help="a host's expectations (JSON), such as /etc/muster/expect.json"
    )
    parser.add_argument("--fleet", metavar="FILE", help="fleet file that declares the class")
    parser.add_argument("--all", action="store_true", help="show every finding by itself, passes too")
    parser.epilog = (
        "Without --class and --expect nothing passes: faults that an output tells by itself are named. "
        "Exit status: 0 everything passed, 1 something failed, 2 incomplete or wrong input."
    )


def run(options: argparse.Namespace) -> Answer:
    """Return what the outputs say, worst first, and the worst verdict. Raises CommandError and FleetError."""
    if options.fleet and not options.hardware_class:
        beside = "--expect beside it" if options.expect else "no --class"
        raise CommandError(f"--fleet: found {beside}, expected --class with a class of the fleet file")
    expect = None
    if options.expect:
        expect = _of_file(options.expect)
    elif options.hardware_class:
        expect = _of_class(options.hardware_class, options.fleet)
    try:
        saved = [each for path in options.paths for each in saved_in(path, expect, options.probe or "")]
        found = judged(saved, expect, options.check)
    except (SavedError, HostArchiveError) as exc:
        raise CommandError(str(exc)) from exc
    verdict = worst(each.finding.verdict for each in found)
    last = verdict if expect else f"{verdict} {_UNDECLARED}"
    text = "\n".join([*lines_of(found, every=options.all), last])
    data = {"verdict": verdict, "findings": [each.to_dict() for each in found]}
    return Answer(text, data, judge_command.status_of(verdict))


def _of_class(name: str, fleet: str | None) -> Expectations:
    """Return what a class expects by itself: what follows from fabric and storage is no part of it."""
    overrides: Mapping[str, Any] = {}
    if fleet is not None:
        Fleet.load(fleet)
        overrides = read_yaml(fleet).get("hardware_classes") or {}
    known = sorted({*shipped_classes(), *overrides})
    if name not in known:
        raise CommandError(f"--class: found {name!r}, expected {one_of(known)}")
    return read_expectations(expectations_of(name, overrides, fleet or name))


def _of_file(path: str) -> Expectations:
    try:
        return read_expectations(json.loads(Path(path).read_text(encoding="utf-8")))
    except ReadError as exc:
        raise CommandError(f"{path}: {exc}") from exc
    except ValueError as exc:
        raise CommandError(f"{path} is not JSON: {exc}") from exc
