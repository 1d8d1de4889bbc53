"""Several outputs kept as one text, each under a heading as ``head`` and ``tail`` print it: ``==> NAME <==``.

A probe that asks a tool once for each device, or reads many small files, keeps one raw output like every other probe;
a sysfs tree saved with ``head -n -0`` can be judged by the same parser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .host import Host, Output

_LIST = "files"
_HEADING = re.compile(r"==> (.+?) <==(?: \((.*)\))?")
_STATUS = re.compile(r"exit status (-?\d+)(?:: (.*))?")


def joined(outputs: Mapping[str, Output]) -> Output:
    """Return the outputs as one, which is readable whatever became of single ones: each heading says it."""
    return Output("\n".join(_block(name, output) for name, output in outputs.items()))


def listed(outputs: Mapping[str, Output]) -> Output:
    """Return the outputs as one that begins with a list of their names, so that a lost one is missed."""
    return joined({_LIST: Output("".join(f"{name}\n" for name in outputs) + f"{len(outputs)} in all\n"), **outputs})


def is_listed(text: str) -> bool:
    """Return whether the text begins with such a list: then no output at all means that there was none."""
    return text.startswith(f"==> {_LIST} <==\n")


def read_files(host: Host, *patterns: str) -> Output:
    """Return the files that the glob patterns name, listed, each under its path; one that cannot be read says why."""
    return listed({path: host.read(path) for path in host.paths(*patterns)})


def split(text: str) -> dict[str, Output]:
    """Return the outputs by name; text before the first heading is no output.

    An output that the list names and that is not there cannot be read (``rc`` None), nor can the one before it, nor one
    whose name is given twice: nobody can say which of them is meant.
    """
    outputs: dict[str, Output] = {}
    name, heading, lines = "", "", []
    for line in [*text.split("\n"), "==> end <=="]:
        match = _HEADING.fullmatch(line.rstrip("\r"))
        if not match:
            lines.append(line)
            continue
        if name:
            twice = Output(rc=None, error="stands here twice")
            outputs[name] = twice if name in outputs else _output(heading, lines)
        name, heading, lines = match.group(1), match.group(2) or "", []
    if is_listed(text):
        *names, count = outputs.pop(_LIST).stdout.splitlines() or [""]
        if count != f"{len(names)} in all":
            return {name: Output(rc=None, error="the list of files is damaged") for name in {*names, *outputs}}
        for name, following in zip(names, [*names[1:], ""]):
            # Where a heading is lost, what stood under it stands under the one before.
            if name not in outputs or (following and following not in outputs):
                outputs[name] = Output(rc=None, error="lost, or mixed with the next one")
    return outputs


def _block(name: str, output: Output) -> str:
    trouble = ""
    if output.timed_out or output.rc is None or output.error:
        trouble = f" ({_line(output.error) or 'could not be run'})"
    elif output.rc:
        trouble = f" (exit status {output.rc}: {_line(output.stderr)})"
    text = output.stdout if output.stdout.endswith("\n") or not output.stdout else output.stdout + "\n"
    return f"==> {name} <=={trouble}\n{text}"


def _output(heading: str, lines: list[str]) -> Output:
    # One empty line stands before the next heading.
    text = "\n".join(lines[:-1] if lines and not lines[-1] else lines)
    text += "\n" if text and not text.endswith("\n") else ""
    status = _STATUS.fullmatch(heading)
    if status:
        return Output(text, status.group(2) or "", int(status.group(1)))
    return Output(text, rc=None, error=heading) if heading else Output(text)


def _line(text: str) -> str:
    """Return the first line, short, without what would end the heading."""
    return (text.strip().splitlines() or [""])[0].replace("(", "[").replace(")", "]")[:200]
