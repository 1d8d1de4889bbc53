"""A file as people save it, in clean pieces: one tool's text of one host each.

Terminals, shells and launchers leave their marks in what is saved: carriage returns, colour codes, backspaces, prompts,
the name of a host before every line. None of them is the tool's; a prompt and such a name say which host it was.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ansible_collections.muster.cluster.plugins.module_utils.formats import nvidia_smi_query
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

from .text_sections import sections

# A compressed text is not unpacked beyond this: a damaged or hostile one must not fill the memory.
MOST_BYTES = 512 * 2**20
_CHUNK = 2**20
# Blanks and empty lines beyond these mean nothing, and cost a pattern that may begin at each of them their square.
_MOST_BLANKS = 200
_BLANKS = re.compile(rf"\s{{{_MOST_BLANKS},}}")
# Lines by which the prefix of a launcher is told.
_SAMPLE = 2000

# ECMA-48: control sequences, and the commands to the terminal that end with BEL or ESC \ (titles of windows).
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-Za-z]|\x1b[=>78cDEHM]")
# script(1) writes a line before and one after.
_SCRIPT = re.compile(r"^Script (?:started|done) .*\n?", re.MULTILINE)

_TOOLS = (
    r"nvidia-smi|dmesg|journalctl|dcgmi|nvbandwidth|lspci|lscpu|dmidecode|ipmitool|smartctl|nvme|mlxlink|mstlink"
    r"|mlxconfig|mstconfig|flint|ibstat|ibstatus|ibnetdiscover|iblinkinfo|ibqueryerrors|perfquery|ethtool|chronyc"
    r"|stress-ng|fio|cat|tail|head|grep|zcat|show|lctl|lnetctl|lfs|mdadm|scontrol|sinfo|sacct|squeue|curl|mpirun|srun"
    r"|ib_\w+_(?:bw|lat)|\w+_perf|numactl|uname|uptime|df|mount|ip|rdma|mlnx_qos|show_gids"
)
# bash's usual prompts: user@host:dir$, [user@host dir]$, host:dir #, sh-5.1#.
_PROMPT = (
    r"(?:\([\w.-]+\) ?)?"
    r"(?:\[[\w.-]+@(?P<in_brackets>[\w.-]+) [^\]\n]{0,200}\]|[\w.-]+@(?P<before_colon>[\w.-]+):[^\n$#%>]{0,200}"
    r"|(?P<no_user>[A-Za-z][\w.-]*):[~/][^\n$#%>]{0,200}|(?:ba)?sh-\d\.\d)"
    r"[$#%>](?: (?P<command>[^\n]*))?"
)
# A prompt of one sign counts before a tool's name alone: nccl-tests and perftest begin their notes with "# ".
_SIGN = rf"(?:# \$|[$#+%]) (?P<typed>(?:sudo )?(?:/[\w./-]*/)?(?:{_TOOLS})(?![\w.-])(?! \d+\.)[^\n]*)"
_COMMAND_LINE = re.compile(
    rf"^(?:#{{10,}}\n(?:# (?!\$)[^\n]*\n)*)?(?:{_PROMPT}|{_SIGN})[ \t]*(?:\n#{{10,}})?(?:\n|\Z)", re.MULTILINE
)
# "lfs check: ..." is what the tool says, no command.
_FIRST_COMMAND = re.compile(rf"\s*((?:sudo )?(?:/[\w./-]*/)?(?:{_TOOLS})(?! \w+: | \d+\.\d+ )(?: [^\n]*)?)\n")

_HEADING = re.compile(r"^==> (.+?) <==(?: \(.*\))?[ \t]*\n", re.MULTILINE)
# What people's own headings name: a file, a command or a host; a probe's name sysfs files and parts.
_OWN_HEADING = re.compile(
    rf"[\w@:/.+-]+\.(?:txt|log|out|err|json|xml|csv|ya?ml|conf|gz)"
    rf"|(?!nvme \d)(?:sudo )?(?:/[\w./-]*/)?(?:{_TOOLS})(?: .*)?"
    r"|[a-z][a-z0-9]*-[a-z0-9.-]*\d"
)
_KEPT_HEADING = re.compile(
    r"dcgmi (?:discovery|diag|nvlink) .*-[jl]|nvbandwidth -j .*"
    r"|nvidia-smi --query-gpu=index,pci.bus_id .*|/(?:sys|proc)/.*"
)
# dshbak and clush -b: the host between two rulers.
_GATHERED = re.compile(r"^-{8,}\n(?P<host>[A-Za-z0-9][\w.,\[\]-]*)(?: \(\d+\))?\n-{8,}\n", re.MULTILINE)

# Launchers' prefixes: mpirun --tag-output, kubectl logs --prefix, srun --label, then pdsh and clush.
_PREFIXES = (
    re.compile(r"\[\d+,(?P<rank>\d+)\](?:<std\w+>)?: ?"),
    re.compile(r"\[pod/(?P<host>[^/\]]+)/[^\]]+\] ?"),
    re.compile(r" *(?P<rank>\d{1,5}): ?"),
    re.compile(r"(?P<host>(?=[\w.-]*[\d-])[A-Za-z][\w.-]*): ?"),
)

# What begins another tool's text, and whether it does so once in each of them.
_STARTS = re.compile(
    r"^(?:(?P<smi>=+NVSMI LOG=+$|(?:<\?xml[^\n]*\n\s*)?<!DOCTYPE nvidia_smi_log)"
    r"|(?P<table>(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [^\n]{10,30}\n)?\+-+\+\n\| NVIDIA-SMI \d)"
    r"|(?P<nvlink>GPU \d+: [^\n]*\(UUID: [^\n]*\)\n\s+Link 0:)"
    r"|(?P<topology>[ \t]*GPU0[ \t][^\n]*CPU Affinity)"
    r"|(?P<ibstat>CA ')|(?P<ibstatus>Infiniband device ')"
    r"|(?P<smartctl>smartctl \d+\.\d)|(?P<dmidecode># dmidecode \d)|(?P<lscpu>Architecture: )"
    r"|(?P<chrony>Reference ID\s+: )|(?P<nccl_tests># nThread )|(?P<dcgm>Successfully ran diagnostic for group)"
    r"|(?P<ibnetdiscover># Topology file: ))",
    re.MULTILINE,
)
_AGAIN = ("smi", "table", "smartctl", "lscpu", "chrony", "dcgm", "topology")
# The time in a log's line, ``[  12.345678]``, is no document.
_DOCUMENT = re.compile(r"\s*(?=\{|\[\s*[\[{\"])")
_KERNEL_LINE = re.compile(r"^\[ *\d+\.\d{6}\] \S", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    """One tool's text; ``host`` and ``command`` are what a prompt, prefix or heading says, "" where nothing does."""

    text: str
    host: str = ""
    command: str = ""


class DamagedTextError(MusterError, ValueError):
    """A file of which only ``text`` can be read: a fault in it counts, its silence proves nothing."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(why)
        self.text = text


def text_of(data: bytes) -> str:
    """Return what a file says: unpacked, decoded, without the marks of a terminal; raises DamagedTextError."""
    if data[:2] == b"\x1f\x8b":
        data, why = _unpacked(data)
        if why:
            raise DamagedTextError(why, _plain(_decoded(data)))
    return _plain(_decoded(data))


def pieces_of(text: str) -> list[Piece]:
    """Return the pieces of a clean text in its order; none for a text of blanks."""
    parts = [each for gathered in _gathered(text) for each in _by_prefix(gathered)]
    for split in (_by_command, _by_heading, _by_start):
        parts = [piece for part in parts for piece in split(part)]
    return [
        replace(part, text=nvidia_smi_query.header_of(part.command) + part.text) for part in parts if part.text.strip()
    ]


def _unpacked(data: bytes) -> tuple[bytes, str]:
    """Return what a gzip file holds as far as it can be unpacked, and why there is more, "" if that is all."""
    parts: list[bytes] = []
    room = MOST_BYTES
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            while part := packed.read1(_CHUNK):
                parts.append(part)
                room -= len(part)
                if room < 0:
                    return b"", f"unpacks to more than {MOST_BYTES} bytes"
    except (OSError, EOFError, zlib.error) as exc:
        return b"".join(parts), f"damaged gzip: {exc}"
    return b"".join(parts), ""


def _decoded(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    head = data[:400]
    # Windows saves a redirected output as UTF-16; some programs leave out the mark of its order.
    if head.count(0) * 3 > len(head) > 1:
        return data.decode("utf-16-be" if head[0] == 0 else "utf-16-le", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _plain(text: str) -> str:
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n")
    if "\x08" in text:
        text = "\n".join(_typed_over(line) if "\x08" in line else line for line in text.split("\n"))
    if "\r" in text:
        # A terminal shows what was written last; a file of old Macintoshes has no other ends of lines.
        overwritten = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        text = "\n".join(overwritten) if "\n" in text else text.replace("\r", "\n")
    half = _MOST_BLANKS // 2
    if any(text[at : at + half].isspace() for at in range(0, len(text), half)):
        text = _BLANKS.sub(_fewer_blanks, text)
    return _SCRIPT.sub("", text) if text.startswith("Script ") else text


def _typed_over(line: str) -> str:
    """Return a line without what its backspaces take away."""
    kept: list[str] = []
    for sign in line:
        if sign != "\x08":
            kept.append(sign)
        elif kept:
            kept.pop()
    return "".join(kept)


def _fewer_blanks(blanks: re.Match[str]) -> str:
    """Return the beginning and the end of a run of blanks, which goes on to end a line if it does."""
    run, half = blanks.group(), _MOST_BLANKS // 2
    return run[:half] + ("\n" if "\n" in run else "") + run[-half:]


def _gathered(text: str) -> Iterator[Piece]:
    parts = list(sections(_GATHERED, text)) if "--------" in text else []
    yield Piece(text[: parts[0][0].start()] if parts else text)
    for mark, body in parts:
        yield Piece(body, mark.group("host"))


def _by_prefix(piece: Piece) -> list[Piece]:
    """Return one piece for each host or rank whose name a launcher wrote before every line."""
    sample = [line for line in piece.text[: 200 * _SAMPLE].split("\n")[:_SAMPLE] if line.strip()]
    for prefix in _PREFIXES:
        found = [prefix.match(line) for line in sample]
        names = {match.group(1) for match in found if match}
        if len(sample) < 2 or not all(found) or len(names) * 2 > len(sample):
            continue
        named: dict[str, list[str]] = {}
        for line in piece.text.split("\n"):
            match = prefix.match(line)
            if match or line.strip():
                name = match.group(1) if match else ""
                named.setdefault(name, []).append(line[match.end() :] if match else line)
        if "rank" in prefix.groupindex:
            every = "".join("\n".join(lines) + "\n" for lines in named.values())
            # What all ranks print together is one text, of which the first one has the most.
            if "NCCL" in every or "# nThread" in every:
                return [replace(piece, text=prefix.sub("", piece.text) if len(named) == 1 else every)]
            return [Piece("\n".join(lines) + "\n", piece.host or f"rank {name}") for name, lines in named.items()]
        return [Piece("\n".join(lines) + "\n", name or piece.host) for name, lines in named.items()]
    return [piece]


def _by_command(piece: Piece) -> Iterator[Piece]:
    """Yield what each command at a prompt has printed; what stands before the first one is of an unknown command."""
    text = piece.text
    typed = _FIRST_COMMAND.match(text)
    command, host, begin = ("", piece.host, 0) if not typed else (typed.group(1).strip(), piece.host, typed.end())
    for mark in _COMMAND_LINE.finditer(text, begin):
        yield Piece(text[begin : mark.start()], host, command)
        names = mark.groupdict()
        host = names["in_brackets"] or names["before_colon"] or names["no_user"] or host
        command, begin = (names["command"] or names["typed"] or "").strip(), mark.end()
    yield Piece(text[begin:], host, command)


def _by_heading(piece: Piece) -> Iterator[Piece]:
    """Yield what stands under each ``==> NAME <==``, but together what one probe keeps under many of them."""
    text = piece.text
    parts = list(sections(_HEADING, text)) if "==> " in text else []
    names = [mark.group(1) for mark, _ in parts]
    if not names or any(_KEPT_HEADING.fullmatch(name) or not _OWN_HEADING.fullmatch(name) for name in names):
        yield piece
        return
    yield replace(piece, text=text[: parts[0][0].start()])
    for mark, body in parts:
        yield Piece(body, piece.host, mark.group(1))


def _by_start(piece: Piece) -> Iterator[Piece]:
    """Yield each tool's text where several stand one after the other without a sign between them."""
    text = piece.text
    begin, current = 0, ""
    for end in _ends_of_documents(text):
        yield replace(piece, text=text[begin:end].lstrip() + "\n")
        begin = end
    for mark in _STARTS.finditer(text, begin):
        label = str(mark.lastgroup)
        if label == current and label not in _AGAIN:
            continue
        if mark.start() > begin:
            yield from _with_kernel_lines(replace(piece, text=text[begin : mark.start()]))
            begin = mark.start()
        current = label
    yield from _with_kernel_lines(replace(piece, text=text[begin:]))


def _with_kernel_lines(piece: Piece) -> Iterator[Piece]:
    """Yield a kernel's log apart from the tool's text before it."""
    first = _KERNEL_LINE.search(piece.text) if _STARTS.match(piece.text.lstrip()) else None
    if first and first.start():
        yield replace(piece, text=piece.text[: first.start()])
        yield replace(piece, text=piece.text[first.start() :])
    else:
        yield piece


def _ends_of_documents(text: str) -> list[int]:
    """Return where each of the JSON documents ends that the text begins with; none for a single one, or for lines."""
    decoder = json.JSONDecoder()
    ends: list[int] = []
    at = 0
    while begins := _DOCUMENT.match(text, at):
        try:
            _, at = decoder.raw_decode(text, begins.end())
        except (ValueError, RecursionError):
            return []
        ends.append(at)
        if "\n" not in text[begins.end() : at] and _DOCUMENT.match(text, at):
            return []
    rest = text[at:].strip()
    # The rest of a document that was cut out of another one is no text of its own.
    return [] if rest[:1] in (",", "]", "}") or (len(ends) < 2 and not rest) else ends
