"""What fio prints for people: whether its jobs met an error. How fast a drive must be is asked of its JSON alone.

Texts: axboe/fio, io_u.c (``io_u error on file``), fio.h (``pid=1, err=5/file:io_u.c``), stat.c (``err= 0: pid=1``).
"""

from __future__ import annotations

import re

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.saved.saved_findings import fault, unread

NAME = "fio's report"
_CHECK = "fio"

_JOB = re.compile(r"^(\S[^\n]*?): \(groupid=\d+, jobs=\d+\): err= *(\d+)(?: \(([^\n]*?)\))?: pid=\d+", re.MULTILINE)
_IO_ERROR = re.compile(r"^fio: io_u error on file (\S+): ([^:\n]+)", re.MULTILINE)
_ENDED = re.compile(r"^fio: pid=\d+, err=(\d+)/file:[^\n]*?error=([^\n]*)", re.MULTILINE)
# verify.c: what was read is not what was written.
_WRONG = re.compile(r"^(?:fio: )?(?:verify: bad [^\n]*|[\w-]+: verify failed at file [^\n]*)", re.MULTILINE)


def recognises(text: str) -> bool:
    """Return whether fio printed this for people."""
    return any(mark.search(text) for mark in (_JOB, _IO_ERROR, _ENDED, _WRONG))


def findings(text: str, expect: Expectations | None) -> list[Finding]:
    """Return the errors that fio met; without one, that its speed is not judged here."""
    told = {match[1]: f"input and output failed: {match[2].strip()}" for match in _IO_ERROR.finditer(text)}
    for job, number, meaning in _JOB.findall(text):
        if int(number):
            told[job] = f"ended with error {number}{f', {meaning}' if meaning else ''}"
    found = [fault(_CHECK, part, why) for part, why in told.items()]
    if wrong := _WRONG.search(text):
        found.append(fault(_CHECK, "data", f"what was read is not what was written: {wrong[0][:160]}"))
    if not found and (ended := _ENDED.search(text)):
        found.append(fault(_CHECK, "job", f"ended with error {ended[1]}: {ended[2].strip()}"))
    return found or [unread(_CHECK, "job", "no error met; how fast it must be is asked of fio --output-format=json")]
