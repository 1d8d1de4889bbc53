"""Which programs Muster starts, and where: read from its source, so that a start counts that no test takes.

The words of a command are followed through names, modules, conditions, parameters (to the callers) and functions (to
what they return). A command whose program comes from elsewhere, such as an inventory or a plan's step, is Unresolved.

Not seen: what Ansible's own modules start, what programs start beside SHELLS and STARTERS (``ssh``, ``srun``, Slurm by
its configuration, logrotate), commands of a switch, and variables that stand for a program in a shell script.
"""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.contracts.table import OWN

ROOT = Path(__file__).parents[2]
# Stands for what the ``run`` of a host is given: its callers are places of their own.
FORWARDED = "run"
HOSTS = frozenset({"host", "here", "machine"})
CALLS = {"subprocess": "run|Popen|call|check_", "os": "exec|spawn|posix_spawn|system|popen"}
# One word that the source does not tell, or a part of one. None is any number of such words.
UNKNOWN = "{}"
SHELLS = frozenset({"sh", "bash", "dash"})
# Programs that start another: those options of theirs that take a word, and how many words come after the options.
STARTERS = {"env": ("-u", 0), "timeout": ("-s -k", 1), "runuser": ("-u", 0), "unshare": ("", 0)}
# What may stand before a command of a shell, and what is no program.
BEFORE = frozenset({"if", "then", "else", "elif", "do", "while", "until", "{", "!", "exec"})
BUILTINS = re.compile(
    r"[\[.:]|break|case|cd|command|continue|done|echo|esac|eval|exit|export|false|fi|for|kill|local|printf|pwd|read"
    "|return|set|shift|test|trap|true|type|ulimit|umask|unset|wait"
)
UNIT_LINE = re.compile(r"^\s*Exec(?:Start|Stop|Reload|Condition)\w*=[-+@!:|]*([^\s-].*)", re.MULTILINE)
TASK = re.compile(r"ansible\.builtin\.(command|shell|script|raw)")
JINJA = re.compile(r"\{\{.*?\}\}", re.DOTALL)
VALUE = re.compile(r"\{\{ *(\w+)(?:\.(\w+)|(\[[^]]+\]))? *\}\}")

Words = tuple["str | None", ...]


@dataclass(frozen=True)
class Started:
    """A program and the line that starts it; ``file`` is a path from plugins/, or from the root for a role."""

    program: str
    file: str
    line: int


@dataclass(frozen=True)
class Unresolved:
    """A place that starts what its source alone does not tell."""

    file: str
    function: str
    source: str


Place = Started | Unresolved


def programs(words: Words) -> Iterator[str | None]:
    """Yield the program of a command, and those that it starts in turn; None for one that is not known."""
    first, *rest = words or (None,)
    if not first or UNKNOWN in (name := first.rpartition("/")[2]):
        yield None
        return
    yield name
    if name in SHELLS and rest:
        yield from shell_programs(rest[1]) if len(rest) > 1 and rest[1] else [None]
    if name in STARTERS:
        valued, own = STARTERS[name]
        while rest and rest[0] and (rest[0].startswith("-") or (name == "env" and "=" in rest[0])):
            del rest[: 2 if rest[0] in valued.split() else 1]
        if rest := rest if rest[:1] == [None] else rest[own:]:
            yield from programs(tuple(rest))


def shell_programs(script: str) -> Iterator[str]:
    """Yield the programs of a shell script without here-documents; a bare word of a ``case`` is taken for one."""
    text = re.sub(r"(?m)(^|\s)#.*|\$\(\(.*?\)\)", " ", script)
    # Quoted text is words, but for what $( ) runs in it.
    text = re.sub(r"""'[^']*'|"([^"]*)\"""", lambda found: re.sub(r"(?<!\$)[;|&()<>\n']", "_", found[1] or "_"), text)
    text = re.sub(r"\d*[<>]+&?\s*[^\s;|&)]+", "", text)
    for command in re.split(r"[;|&()`\n]+", text):
        words = command.split()
        while words and (words[0] in BEFORE or re.match(r"\w+=", words[0])):
            del words[0]
        if words and not BUILTINS.fullmatch(words[0]) and re.fullmatch(r"/?[a-z][\w./-]*", words[0]):
            yield from (name for name in programs(tuple(words)) if name and re.fullmatch(r"[a-z][\w.-]*", name))


def unit_programs(text: str, variables: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the programs of a unit of systemd, or of a template of one."""
    for line in UNIT_LINE.findall(text):
        told = VALUE.sub(lambda found: str(variables.get(found[1], UNKNOWN)), line)
        yield from programs(tuple(shlex.split(JINJA.sub(UNKNOWN, told))))


class Sources:
    """Python files by their path from plugins/, parsed when asked for; each node of one knows its ``parent``."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.module, self.names, self.calls = cache(self._module), cache(self._names), cache(self._calls)

    def places(self, path: str) -> Iterator[Place]:
        """Yield what a file starts, and what the units start that it writes."""
        for node in self.module(path).nodes:
            if isinstance(node, ast.Constant) and "Exec" in str(node.value):
                yield from (Started(name, path, node.lineno) for name in unit_programs(str(node.value), {}) if name)
            elif isinstance(node, ast.Call) and node.args and _starts(node):
                function = next((each.name for each in _above(node) if isinstance(each, ast.FunctionDef)), "")
                line = _last(node.func) == "_low_level_execute_command"
                said = self.words(node.args[0], frozenset()) or {(None,)}
                for name in dict.fromkeys(name for words in sorted(said, key=str) for name in _programs(words, line)):
                    unresolved = Unresolved(path, function, ast.unparse(node)[:120])
                    yield unresolved if name is None else Started(name, path, node.lineno)

    def words(self, node: Any, seen: frozenset[Any]) -> set[Words]:
        """Return every list of words that an expression may be."""
        found: set[Words] = set()
        for source, way in self._sources(node, seen):
            match source:
                case ast.Constant(value=str(text)):
                    found.add((text,))
                case ast.JoinedStr():
                    parts = (part.value if isinstance(part, ast.Constant) else UNKNOWN for part in source.values)
                    found.add(("".join(map(str, parts)),))
                case ast.List() | ast.Tuple():
                    found |= _joined(self._element(each, way) for each in source.elts)
                case ast.BinOp(op=ast.Add()):
                    found |= _joined(self.words(side, way) for side in (source.left, source.right))
                case _:
                    found.add((None,))
        return found

    def _element(self, node: Any, seen: frozenset[Any]) -> set[Words]:
        if isinstance(node, ast.Starred):
            return self.words(node.value, seen)
        found = self.words(node, seen) or {(None,)}
        return {words if len(words) == 1 and words[0] else (UNKNOWN,) for words in found}

    def _sources(self, node: Any, seen: frozenset[Any]) -> Iterator[tuple[Any, frozenset[Any]]]:
        """Yield the expressions that give a value, each with the way to it; no way goes through a node twice."""
        if node in seen:
            return
        behind = self._behind(node, seen := seen | {node})
        if behind is None:
            yield node, seen
        for each in behind or ():
            yield from self._sources(each, seen)

    def _behind(self, node: Any, seen: frozenset[Any]) -> list[Any] | None:
        """Return what stands behind an expression; None where it stands for itself, or for what is not known."""
        match node:
            case ast.IfExp():
                return [node.body, node.orelse]
            case ast.BoolOp():
                return list(node.values)
            case ast.Name() | ast.Attribute():
                return [each for each in self._meant(node) if not isinstance(each, ast.FunctionDef)] or None
            case ast.arg():
                return self._given(node)
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
                return [inner]
            case ast.Call(func=ast.Name() | ast.Attribute()):
                functions = [each for each in self._meant(node.func) if isinstance(each, ast.FunctionDef)]
                returns = [each for one in functions for each in _within(one) if isinstance(each, ast.Return)]
                return [each.value for each in returns if each.value] or None
            case ast.Subscript():
                parts = [_parts(each, node.slice) for each, _ in self._sources(node.value, seen)]
                return None if None in parts else [each for part in parts for each in part or ()]
        return None

    def _meant(self, node: Any) -> list[Any]:
        """Return the values, functions, classes and modules that a name stands for."""
        if isinstance(node, ast.Name):
            scopes = (self.names(each) for each in _above(node) if isinstance(each, ast.FunctionDef | ast.Module))
            return next((names[node.id] for names in scopes if node.id in names), [])
        owners = self._meant(node.value) if isinstance(node.value, ast.Name) else []
        owners = [each for each in owners if isinstance(each, ast.Module | ast.ClassDef)]
        if not owners:
            # A member of self is one of its class, that of another object one of any class of the file.
            *own, module = [each for each in _above(node) if isinstance(each, ast.ClassDef | ast.Module)]
            classes = [each for each in module.body if isinstance(each, ast.ClassDef)]
            owners = own[:1] if _last(node.value) in ("self", "cls") else classes
        return [each for one in owners for each in self.names(one).get(node.attr, [])]

    def _given(self, argument: Any) -> list[Any] | None:
        """Return what callers give for an argument of a function; None without a caller."""
        arguments, function = argument.parent, argument.parent.parent
        if getattr(function, "name", "run") == "run":
            return [ast.Constant(FORWARDED)] if isinstance(function, ast.FunctionDef) else None
        of_class = isinstance(function.parent, ast.ClassDef)
        called = function.parent.name if function.name == "__init__" else function.name
        positional = [*arguments.posonlyargs, *arguments.args]
        at = (positional.index(argument) if argument in positional else len(positional)) - of_class
        found: list[Any] = []
        for call in self.calls(called, _file(function)):
            if argument is arguments.vararg:
                found.append(_child(ast.Tuple(call.args[at:], ast.Load()), call))
            elif argument in positional and at < len(call.args):
                starred = any(isinstance(each, ast.Starred) for each in call.args[: at + 1])
                found.append(ast.Constant(None) if starred else call.args[at])
            found += [each.value for each in call.keywords if each.arg == argument.arg]
        return found or None

    def _calls(self, name: str, path: str) -> list[ast.Call]:
        """Return the calls of a name in its file, and of a public one in those that import from there."""
        told = re.compile(rf"import [^#]*\b{Path(path).stem}\b|\b{Path(path).stem} import ")
        files = [] if name.startswith("_") else [each for each, text in self.texts.items() if f"{name}(" in text]
        files = [path, *(each for each in files if each != path and told.search(self.texts[each]))]
        nodes = (node for each in files for node in self.module(each).nodes)
        return [node for node in nodes if isinstance(node, ast.Call) and _last(node.func) == name]

    def _module(self, path: str) -> Any:
        module: Any = ast.parse(self.texts[path])
        module.path, module.nodes = path, [module]
        for parent in module.nodes:
            module.nodes += [_child(child, parent) for child in ast.iter_child_nodes(parent)]
        return module

    def _names(self, scope: Any) -> dict[str, list[Any]]:
        """Return what each name of a scope is bound to: expressions, arguments, definitions, modules."""
        found: dict[str, list[Any]] = {}

        def bind(target: Any, value: Any) -> None:
            if isinstance(target, ast.Tuple):
                for at, each in enumerate(target.elts):
                    bind(each, _child(ast.Subscript(value, ast.Constant(at), ast.Load()), value.parent))
            elif isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)

        for node in _within(scope):
            match node:
                case ast.Assign():
                    for target in node.targets:
                        bind(target, node.value)
                case ast.AnnAssign(value=ast.expr()) | ast.NamedExpr():
                    bind(node.target, node.value)
                case ast.For() | ast.comprehension():
                    bind(node.target, _child(ast.Subscript(node.iter, ast.Name("each"), ast.Load()), node))
                case ast.arg():
                    found.setdefault(node.arg, []).append(node)
                case ast.FunctionDef() | ast.ClassDef():
                    found.setdefault(node.name, []).append(node)
                case ast.ImportFrom():
                    for each in node.names:
                        found.setdefault(each.asname or each.name, []).extend(self._imported(node, each.name))
        return found

    def _imported(self, node: ast.ImportFrom, name: str) -> list[Any]:
        parts = (node.module or "").removeprefix("ansible_collections.muster.cluster.plugins.").split(".")
        base = _file(node).split("/")[: -node.level] if node.level else []
        place = "/".join(filter(None, [*base, *parts]))
        if f"{place}/{name}.py" in self.texts:
            return [self.module(f"{place}/{name}.py")]
        return self.names(self.module(f"{place}.py")).get(name, []) if f"{place}.py" in self.texts else []


def _starts(call: ast.Call) -> bool:
    """Whether a call starts a program, as it looks: of subprocess, os or a module, or ``run`` of a host."""
    of, name = _last(getattr(call.func, "value", call)).strip("_"), _last(call.func)
    if of in CALLS:
        return bool(re.match(CALLS[of], name))
    if name == "run":
        return of in HOSTS or (bool(of) and isinstance(call.args[0], ast.List | ast.Tuple))
    return name in ("run_command", "_low_level_execute_command")


def _programs(words: Words, line: bool) -> Iterator[str | None]:
    """Yield the programs of a command: words, or one text that is a ``line`` of a shell."""
    text = words[0] if len(words) == 1 else None
    known = text and UNKNOWN not in text.split(" ")[0]
    yield from shell_programs(text) if text and known and (line or " " in text) else programs(words)


def _joined(parts: Iterable[set[Words]]) -> set[Words]:
    """Return all ways to say one part after the other."""
    return {tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts)}


def _last(node: Any) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _child(node: Any, parent: Any) -> Any:
    node.parent = parent
    return node


def _above(node: Any) -> Iterator[Any]:
    while node := getattr(node, "parent", None):
        yield node


def _file(node: Any) -> str:
    return str(list(_above(node))[-1].path)


def _within(scope: Any) -> Iterator[Any]:
    """Yield the nodes of a scope without those in its functions and classes."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield from _within(node)


def _parts(node: Any, which: Any) -> list[Any] | None:
    """Return the values of a literal that a subscript may take: all of them, unless it is the place in a list."""
    match node, which:
        case ast.Dict(values=values), _:
            return values
        case ast.ListComp(elt=each) | ast.GeneratorExp(elt=each), _:
            return [each]
        case ast.List(elts=parts) | ast.Tuple(elts=parts), ast.Constant(value=int(at)):
            return parts[at:][:1]
        case ast.List(elts=parts) | ast.Tuple(elts=parts), ast.Name() | ast.Attribute():
            # One with a star has parts of its own.
            stars = [each.value if isinstance(each, ast.Starred) else None for each in parts]
            some = zip(parts, stars, strict=True)
            return [_child(ast.Subscript(star, which, ast.Load()), star) if star else each for each, star in some]
    return None


class _Lined(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Gives each mapping its line."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        return {**super().construct_mapping(node, deep), "": node.start_mark.line + 1}


def task_places(text: str, file: str, variables: Mapping[str, Any]) -> Iterator[Place]:
    """Yield what the tasks of a YAML file start by the modules that run a command."""
    for task in _mappings(yaml.load(text, _Lined) if TASK.search(text) else None):
        for given in [value for key, value in task.items() if TASK.fullmatch(str(key))]:
            command = given.get("argv", given.get("cmd", "")) if isinstance(given, dict) else given
            for found in _alternatives(command, task, variables):
                words = [JINJA.sub(UNKNOWN, str(word)) for word in (found if isinstance(found, list) else [found])]
                for name in _programs(tuple(words), not isinstance(found, list)):
                    unresolved = Unresolved(file, task.get("name", ""), str(command))
                    yield unresolved if name is None else Started(name, file, task[""])


def _mappings(data: Any) -> Iterator[dict[Any, Any]]:
    if isinstance(data, dict):
        yield data
    for each in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _mappings(each)


def _alternatives(value: Any, task: Mapping[Any, Any], variables: Mapping[str, Any]) -> list[Any]:
    """Return the values of ``{{ name }}``, ``{{ name.key }}`` or ``{{ name[...] }}``, of a loop's items too."""
    match = VALUE.fullmatch(str(value))
    if not match or match[1] not in ("item", *variables):
        return [value]
    found = _alternatives(task.get("loop") if match[1] == "item" else variables[match[1]], task, variables)
    if match[1] == "item":
        found = [each for some in found for each in (some if isinstance(some, list) else [some])]
    if match[2] or match[3]:
        mappings = [each for each in found if isinstance(each, dict)]
        found = [one for each in mappings for one in ([each[match[2]]] if match[2] else each.values())]
    return found or [value]


def role_places(file: Path) -> Iterator[Place]:
    """Yield what a file of a role or a playbook starts: by tasks, units of systemd, and as a shell script."""
    name, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
    if not re.search(r"Exec[SRC]|ansible\.builtin\.(command|shell|script|raw)|\A#!/bin/sh", text):
        return
    variables: dict[str, Any] = {}
    for part in ("defaults", "vars"):
        given = ROOT.joinpath(*Path(name).parts[:2], part, "main.yml")
        variables |= yaml.safe_load(given.read_text(encoding="utf-8")) or {} if given.exists() else {}
    yield from task_places(text, name, variables) if file.suffix == ".yml" else ()
    found = [*unit_programs(text, variables), *(shell_programs(text) if text.startswith("#!") else ())]
    for program in dict.fromkeys(found):
        line = text[: max(0, text.find(program or "Exec"))].count("\n") + 1
        yield Started(program, name, line) if program else Unresolved(name, "", "a command of a unit")


@cache
def places() -> list[Place]:
    """Return every place of the collection, without the programs that are Muster's own."""
    top = ROOT / "plugins"
    sources = Sources({str(each.relative_to(top)): each.read_text(encoding="utf-8") for each in top.rglob("*.py")})
    may = re.compile(r"subprocess|\.run\(|run_command|_low_level|\bos\.(exec|spawn|posix_s|system|popen)|Exec[SRC]")
    found = [each for path, text in sorted(sources.texts.items()) if may.search(text) for each in sources.places(path)]
    files = sorted([*(ROOT / "roles").rglob("*"), *(ROOT / "playbooks").rglob("*")])
    found += [each for file in files if file.is_file() and file.suffix != ".md" for each in role_places(file)]
    return [each for each in found if isinstance(each, Unresolved) or each.program not in {*OWN, FORWARDED}]
