"""``muster judge``: what the checks say of saved outputs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..collecting.archive import MANIFEST, SUFFIX, HostArchiveError, read_archive
from ..collecting.class_names import outputs_for
from ..examination.rejudge import SavedError, line_of, rejudged, saved_outputs
from ..host.host import Output
from ..words.expectations import Expectations, read_expectations
from ..words.finding import FAIL, PASS, worst
from ..words.printable import printable
from ..words.reader import ReadError
from .command_line import wrong


def main(arguments: Sequence[str], _version: str) -> int:
    """Print one line per finding and the worst verdict; return 0 for pass, 1 for fail, 2 for anything else."""
    parser = argparse.ArgumentParser(
        prog="muster judge",
        description="Judge saved outputs.",
        epilog="Exit status: 0 pass, 1 fail, 2 incomplete or wrong input.",
    )
    parser.add_argument("path", help="archive of muster collect, directory of raw outputs beside evidence, or a file")
    add_choices(parser)
    parser.add_argument("--expect", required=True, help="expectations of the host's class (JSON), - for standard input")
    options = parser.parse_args(arguments)
    try:
        text = sys.stdin.read() if options.expect == "-" else Path(options.expect).read_text(encoding="utf-8")
        expect = read_expectations(json.loads(text))
        findings = rejudged(_outputs_of(options, expect), expect, options.check)
    except (OSError, ReadError, SavedError) as exc:
        return wrong(str(exc))
    except ValueError as exc:
        return wrong(f"--expect {options.expect} is not JSON: {exc}")
    verdict = worst(finding.verdict for finding in findings)
    print(printable("\n".join([*map(line_of, findings), verdict])))
    return status_of(verdict)


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add what says whose outputs are judged, and by which checks."""
    parser.add_argument("--probe", help="which probe's tool printed the file, such as nvidia_smi or kernel_log")
    parser.add_argument("--check", action="append", default=[], help="ask this check only; may be given several times")


def _outputs_of(options: argparse.Namespace, expect: Expectations) -> dict[str, Output]:
    """Return the outputs by probe that the arguments name, as a class names its parts; raises SavedError."""
    if not options.path.endswith(SUFFIX):
        # There NICs and drives are named as they were collected, which are others than those of a class.
        if Path(options.path).resolve().with_name(MANIFEST).exists():
            raise SavedError(f"{options.path}: outputs of an unpacked archive, expected the archive itself")
        return saved_outputs(options.path, options.probe)
    if options.probe:
        raise SavedError(f"{options.path}: an archive and --probe, expected --probe with what one tool printed")
    try:
        return outputs_for(read_archive(Path(options.path)), expect)
    except HostArchiveError as exc:
        raise SavedError(str(exc)) from exc


def status_of(verdict: str) -> int:
    """Return the exit status that stands for a verdict."""
    return {PASS: 0, FAIL: 1}.get(verdict, 2)
