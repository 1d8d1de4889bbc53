"""Every program that Muster starts is in the table, and every program of the table is started."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contracts.places import (
    Place,
    Sources,
    Started,
    Unresolved,
    places,
    shell_programs,
    task_places,
    unit_programs,
)
from tests.contracts.table import OWN

TABLE = Path(__file__).with_name("tools.yml")
# Each starts frobnicate: with a function, an import or a class around it where the shape has one.
SHAPES = {
    "a list": 'def f(host):\n    host.run(["frobnicate", "-x"], 5)',
    "a path": 'def f(self):\n    self._host.run(("/usr/sbin/frobnicate", "-x"), 5)',
    "another host": 'def f(self):\n    self.environment.machine.run(["frobnicate"], 5)',
    "an unusual name": 'def f(node):\n    node.run(["frobnicate"], 5)',
    "a module's run_command": 'def f(module):\n    module.run_command(["frobnicate"])',
    "a text": 'def f(module):\n    module.run_command("frobnicate -x")',
    "subprocess": 'import subprocess\nsubprocess.Popen(["frobnicate"])',
    "check_output": 'import subprocess\nsubprocess.check_output(["frobnicate"])',
    "an action": 'def f(self):\n    self._low_level_execute_command("LC_ALL=C frobnicate -x | true")',
    "a name of the function": 'def f(host):\n    argv = ["frobnicate"]\n    argv += ["-x"]\n    host.run(argv, 5)',
    "the last of two": 'def f(host):\n    a = ["uname"]\n    if host:\n        a = ["frobnicate"]\n    host.run(a, 5)',
    "a constant": 'ARGV = ("frobnicate", "-x")\ndef f(host):\n    host.run(ARGV, 5)',
    "a constant word": 'TOOL = "frobnicate"\ndef f(host):\n    host.run([TOOL, "-x"], 5)',
    "a star": 'def f(host, x):\n    command = ["frobnicate"]\n    host.run([*command, x], 5)',
    "a star of nothing": 'def f(host, x):\n    limit = () if x else ("env",)\n    host.run([*limit, "frobnicate"], 5)',
    "a sum": 'ARGV = ("frobnicate",)\ndef f(host, x):\n    host.run(ARGV + (x,), 5)',
    "a condition": 'def f(host, x):\n    host.run(["uname"] if x else ["frobnicate"], 5)',
    "a mapping": 'BY = {"a": ("uname",), "b": ("frobnicate",)}\ndef f(host, x):\n    host.run(BY[x], 5)',
    "a loop": 'def f(host):\n    for argv in (["uname"], ["frobnicate"]):\n        host.run(argv, 5)',
    "a comprehension": 'def f(host):\n    return [host.run([tool], 5) for tool in ("uname", "frobnicate")]',
    "a pair": 'def f(host, x):\n    name, argv = ("a", ["uname"]) if x else ("b", ["frobnicate"])\n    host.run(argv)',
    "a function's answer": 'def of(x):\n    return ("frobnicate", x)\ndef f(host, x):\n    host.run(of(x), 5)',
    "a wrapper": 'def ask(host, *argv):\n    host.run(argv, 5)\ndef f(host):\n    ask(host, "frobnicate", "-x")',
    "a wrapping method": (
        "class A:\n    def _ask(self, argv):\n        self.host.run(argv, 5)\n"
        '    def f(self):\n        self._ask(argv=["frobnicate"])'
    ),
    "a constant of another module": "from . import there\ndef f(host):\n    host.run(there.ARGV, 5)",
    "a constant by its name": "from .there import ARGV as A\ndef f(host):\n    host.run(A, 5)",
    "a constant of a class": "from .there import Probe\ndef f(host):\n    host.run(Probe.ARGV, 5)",
    "a wrapper of another module": 'from .there import must\ndef f(host):\n    must(host, "frobnicate")',
    "env": 'def f(host):\n    host.run(["env", "-u", "A", "B=1", "frobnicate"], 5)',
    "timeout": 'def f(host, s):\n    host.run(("timeout", f"--kill-after={s}", "-s", "KILL", f"{s}", "frobnicate"), 5)',
    "runuser": 'def f(host, u):\n    host.run(("runuser", "-u", u, "--", "frobnicate"), 5)',
    "unshare": 'def f(host):\n    host.run(["unshare", "--net", "sh", "-c", SCRIPT], 5)\nSCRIPT = "x=$(frobnicate -x)"',
    "a unit": 'TEXT = f"[Service]\\nExecStartPre=-/usr/bin/frobnicate --x {1}\\n"',
}
THERE = """
ARGV = ("frobnicate", "-x")
class Probe:
    ARGV = ("frobnicate",)
def must(host, *argv):
    host.run(argv, 5)
"""
UNKNOWN = {
    "a step of a plan": "def f(host, step):\n    host.run(step.argv, 5)",
    "a path of an inventory": 'def f(module):\n    module.run_command([module.params["tool"], "frobnicate"])',
    "an f-string": 'def f(host, x):\n    host.run([f"{x}", "frobnicate"], 5)',
    "one of two": 'def f(host, x):\n    host.run([x.tool or "frobnicate"], 5)',
    "nobody's parameter": "def f(host, argv):\n    host.run(argv, 5)",
    "behind env": 'def f(host, x):\n    host.run(["env", *x.argv], 5)',
}
TASKS = {
    "argv": "ansible.builtin.command: {argv: [frobnicate, -x]}",
    "cmd": "ansible.builtin.command: {cmd: frobnicate -x}",
    "free text": "ansible.builtin.shell: set -e; frobnicate -x",
    "a loop": '{ansible.builtin.command: {argv: "{{ item }}"}, loop: [[uname], [frobnicate]]}',
    "a loop's key": '{ansible.builtin.command: {argv: "{{ item.argv }}"}, loop: [{name: a, argv: [frobnicate]}]}',
    "a variable": 'ansible.builtin.command: {argv: "{{ __role_by[role_kind] }}"}',
    "a handler in a block": "block: [{ansible.builtin.command: {argv: [frobnicate]}}]",
}


@cache
def table() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return read


def found(source: str) -> list[Place]:
    sources = Sources({"module_utils/a.py": source, "module_utils/there.py": THERE})
    return [place for path in sources.texts for place in sources.places(path)]


def names(some: list[Place]) -> set[str]:
    return {each.program for each in some if isinstance(each, Started)}


def test_every_program_that_is_started_is_in_the_table() -> None:
    started = [each for each in places() if isinstance(each, Started) and each.program not in table()["tools"]]
    steps = [f"{file}: {name}" for file, some in table()["steps"].items() for name in some]
    absent = [each for each in steps if each.rpartition(" ")[2] not in {*table()["tools"], *OWN}]
    assert [f"{each.file}:{each.line}: {each.program}" for each in started] + absent == []


def test_every_place_that_is_not_resolved_has_its_programs_among_the_steps() -> None:
    unresolved = [each for each in places() if isinstance(each, Unresolved)]
    assert [
        f"{each.file}, {each.function}: {each.source}" for each in unresolved if each.file not in table()["steps"]
    ] == []
    assert set(table()["steps"]) - {each.file for each in unresolved} == set(), "steps of files that have no such place"


def test_every_program_of_the_table_is_started() -> None:
    steps = {name for some in table()["steps"].values() for name in some}
    assert set(table()["tools"]) - names(places()) - steps == set()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_is_found(shape: str) -> None:
    assert "frobnicate" in names(found(SHAPES[shape]))
    assert not [
        each for each in found(SHAPES[shape]) if isinstance(each, Unresolved) and each.file != "module_utils/there.py"
    ]


@pytest.mark.parametrize("shape", UNKNOWN)
def test_a_program_that_the_source_does_not_tell_is_unresolved(shape: str) -> None:
    assert [(each.file, each.function) for each in found(UNKNOWN[shape])[:-1] if isinstance(each, Unresolved)] == [
        ("module_utils/a.py", "f")
    ]


@pytest.mark.parametrize("call", ["load.run(5)", "super().run(x, y)", "shell.run(command, 5)", "os.path.join(x)"])
def test_what_runs_no_program_is_no_place(call: str) -> None:
    assert names(found(call)) == set()


@pytest.mark.parametrize("task", TASKS)
def test_a_program_of_a_task_is_found(task: str) -> None:
    variables = {"__role_by": {"a": ["uname"], "b": ["frobnicate", "-x"]}}
    assert "frobnicate" in names(list(task_places(f"- {TASKS[task]}\n", "roles/a/tasks/main.yml", variables)))


def test_a_task_whose_command_is_computed_is_unresolved() -> None:
    task = '- {name: A, ansible.builtin.command: {argv: "{{ some | list }}"}}\n'
    assert list(task_places(task, "a.yml", {})) == [Unresolved("a.yml", "A", "{{ some | list }}")]


def test_programs_of_a_unit_are_found() -> None:
    guard = "ExecStartPre=-/bin/sh -c '[ -e /a ] || frobnicate {{ b }}'"
    unit = f"[Service]\nExecStart=\nExecStart={{{{ role_tool }}}} -x\n{guard}\n"
    assert list(unit_programs(unit, {"role_tool": "/usr/sbin/toold"})) == ["toold", "sh", "frobnicate"]
    assert None in unit_programs(unit, {})


def test_programs_of_a_shell_script_are_found() -> None:
    script = """#!/bin/sh
    # None of this: uname
    said=$(mktemp /run/a.XXXX) || said=/dev/null
    mkdir -p "$state" && timeout -s KILL 8 frobnicate "it's; uname" > "$said" 2>&1 < /dev/null
    if [ -n "$(find "$state/a" -newer "$b" 2> /dev/null)" ]; then exit "$((tries - 1))"; fi
    case $now in *DOWN*) exit 2 ;; esac
    """
    assert list(shell_programs(script)) == ["mktemp", "mkdir", "timeout", "frobnicate", "find"]
