"""What tools printed: kept beside the evidence that was judged by it, told apart by digests, fetched whole."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..words.errors import MusterError
from ..words.evidence import digest_of
from .host import Output
from .whole_files import PRIVATE, replace_file

# Of all outputs of one examination. A node with eight GPUs prints some 3 MiB; a log without end must not fill its disk.
MOST_BYTES = 64 * 2**20
# Of an examination where it is the only one of its stage.
PLACE = "raw"
_PLACE = re.compile(r"[a-z]+(_[a-z0-9]+)*")


class RawError(MusterError, ValueError):
    """Kept outputs that cannot be read: says where, what was found and what was expected."""


def digests_of(outputs: Mapping[str, Output], place: str = PLACE) -> dict[str, str]:
    """Return the digest of each output, exit status and standard error included, as evidence names them.

    The name is that of the probe, behind the directory's where it is not ``raw``.
    """
    before = "" if place == PLACE else f"{place}/"
    return {f"{before}{name}": digest_of(vars(output)) for name, output in outputs.items()}


def places_in(raw: Iterable[str]) -> dict[str, list[str]]:
    """Return, by directory, the probes whose outputs evidence names; raises RawError for what is no name of one."""
    places: dict[str, list[str]] = {}
    for name in raw:
        place, _, probe = name.rpartition("/")
        place = place or PLACE
        if not _PLACE.fullmatch(place) or not _PLACE.fullmatch(probe):
            raise RawError(f"raw output {name!r}, expected PROBE or PLACE/PROBE")
        places.setdefault(place, []).append(probe)
    return places


def write_outputs(directory: Path, outputs: Mapping[str, Output]) -> None:
    """Write what each tool printed as PROBE.txt, and the rest of it (exit status, standard error) as outputs.json.

    The largest are left out where all together are more than MOST_BYTES: who judges them again finds them missing.
    """
    kept: dict[str, Any] = {}
    room = MOST_BYTES
    for probe, output in sorted(outputs.items(), key=lambda item: len(item[1].stdout) + len(item[1].stderr)):
        room -= len(output.stdout) + len(output.stderr)
        file = directory / f"{probe}.txt"
        if room < 0:
            file.unlink(missing_ok=True)
            continue
        replace_file(file, output.stdout, PRIVATE)
        kept[probe] = {**asdict(output), "stdout": None}
    replace_file(directory / "outputs.json", json.dumps(kept, indent=1, sort_keys=True) + "\n", PRIVATE)


def read_outputs(directory: Path) -> dict[str, Output]:
    """Return what ``write_outputs`` wrote; raises RawError."""
    try:
        rest = json.loads((directory / "outputs.json").read_text(encoding="utf-8"))
        return {
            probe: _output({**fields, "stdout": _text(directory / f"{probe}.txt")}) for probe, fields in rest.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        raise RawError(f"{directory}: {exc}") from exc


def pack(outputs: Mapping[str, Mapping[str, Output]]) -> str:
    """Return outputs by directory and probe as one text; raises RawError for more than MOST_BYTES."""
    data = {place: {probe: asdict(output) for probe, output in each.items()} for place, each in outputs.items()}
    text = json.dumps(data, sort_keys=True).encode()
    if len(text) > MOST_BYTES:
        raise RawError(f"raw outputs have {len(text)} bytes, expected at most {MOST_BYTES}")
    return base64.b64encode(zlib.compress(text)).decode("ascii")


def unpack(text: Any) -> dict[str, dict[str, Output]]:
    """Return what ``pack`` was given; raises RawError, also for what is larger than MOST_BYTES once it is unpacked."""
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
        if reader.unconsumed_tail:
            raise RawError(f"raw outputs, expected at most {MOST_BYTES} bytes")
        return {
            place: {probe: _output(fields) for probe, fields in each.items()}
            for place, each in json.loads(data).items()
        }
    except (binascii.Error, zlib.error, ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise RawError(f"raw outputs cannot be unpacked: {exc}") from exc


def _output(fields: Mapping[str, Any]) -> Output:
    output = Output(**fields)
    whole = (isinstance(output.stdout, str), isinstance(output.stderr, str), isinstance(output.error, str))
    if not all(whole) or not isinstance(output.timed_out, bool) or not isinstance(output.rc, (int, type(None))):
        raise ValueError(f"found {str(vars(output))[:80]}, expected the outcome of a tool")
    return output


def _text(path: Path) -> str:
    # Line ends as they are, and what is no text as it was written.
    return path.read_bytes().decode("utf-8", "surrogateescape")
