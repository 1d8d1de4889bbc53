"""The archive: the same tree gives the same bytes."""

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.cli import COMMANDS
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS, PROBES, STRESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import (
    COLLECTION,
    ZipappError,
    build,
    version_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED

NODE_PROGRAM = "/usr/libexec/muster/muster"
SOURCES = COLLECTION / "plugins" / "module_utils"
MOUNT = {
    **{"tier": "t", "kind": "existing", "path": "/checkpoints", "filesystem": "xfs", "source": None, "options": []},
    **{"numa_node": None, "stripe_count": None, "write_ms": 1000, "free_percent": 5},
}
# Runs on the archive alone: every probe and every stress on a host that has no tool and says what it was asked to run.
ASK_ALL = """
import contextlib, dataclasses, json, sys
sys.path.insert(0, sys.argv[1])
from muster.examination.registry import CHECKS, PROBES, STRESSES
from muster.host.host import LocalHost, Output, Unreadable
from muster.words.expectations import read_expectations

expect = read_expectations(json.load(sys.stdin))
asked = []

class Asked(LocalHost):
    def run(self, argv, timeout_seconds):
        asked.append(list(argv))
        return Output(rc=None, error=argv[0] + ": not found")

host = Asked(tool_path="/nonexistent", root=sys.argv[2])
for probe in PROBES.values():
    with contextlib.suppress(Unreadable):
        probe.collect(host, expect)
for stress in STRESSES.values():
    fields = dataclasses.fields(stress.SETTINGS) if dataclasses.is_dataclass(stress.SETTINGS) else ()
    needed = {field.name: 1 for field in fields if field.default is dataclasses.MISSING}
    with contextlib.suppress(Unreadable):
        stress.collect(host, expect, 0.01, stress.SETTINGS(**needed))
print(json.dumps({"held": [list(PROBES), list(CHECKS), list(STRESSES)], "asked": asked}))
"""

# No literal of a probe any more.
PLACE_OF = """
import importlib.util

def place_of(name):
    return importlib.util.find_spec(f".{name}_program", __package__)
"""


def asked_of(tmp_path, collection=COLLECTION):
    """Return what ASK_ALL prints, run on the archive of a collection."""
    path = tmp_path / "muster"
    path.write_bytes(build(collection))
    expect = {**expectations_of("hgx_h100", PLACED, "test"), "mounts": [MOUNT]}
    done = subprocess.run(
        [sys.executable, "-IS", "-c", ASK_ALL, str(path), str(tmp_path)],
        input=json.dumps(expect),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sent_by(answer):
    """Return the texts that a Python of the host was given to run."""
    return [argv[argv.index("-c") + 1] for argv in answer["asked"] if "python3" in argv[0] and "-c" in argv]


def programs_of_their_own():
    """Return the texts of the node's files that a Python starts by themselves, by name."""
    texts = {path.name: path.read_text() for path in SOURCES.rglob("*.py")}
    return {name: text for name, text in texts.items() if any(map(_is_main, ast.parse(text).body))}


def _is_main(statement):
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def copy_of(tmp_path, name):
    target = tmp_path / name
    shutil.copytree(COLLECTION / "plugins" / "module_utils", target / "plugins" / "module_utils", symlinks=True)
    shutil.copy(COLLECTION / "galaxy.yml", target)
    return target


def test_two_copies_build_the_same_bytes(tmp_path):
    first, second = copy_of(tmp_path, "first"), copy_of(tmp_path, "second")
    (second / "plugins" / "module_utils" / "__pycache__").mkdir(exist_ok=True)
    (second / "plugins" / "module_utils" / "__pycache__" / "cli.cpython-39.pyc").write_bytes(b"x")
    for path in second.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (1, 1))
    assert build(first) == build(second)


def test_archive_holds_packages_and_a_start_and_no_compiled_files():
    names = zipfile.ZipFile(io.BytesIO(build())).namelist()
    assert names == sorted(names)
    assert {"__main__.py", "muster/__init__.py", "muster/probes/__init__.py", "muster/checks/xid.py"} <= set(names)
    assert not [name for name in names if not name.endswith(".py")]


def test_archive_holds_what_its_entry_point_reaches_and_nothing_else(tmp_path):
    names = {name.removeprefix("muster/") for name in zipfile.ZipFile(io.BytesIO(build())).namelist()}
    sources = COLLECTION / "plugins" / "module_utils"
    everything = {path.relative_to(sources).as_posix() for path in sources.rglob("*.py")}
    # What modules alone use, and the control machine.
    assert {"rounds/slurm_round.py", "nic/opensm.py"} <= everything - names
    path = tmp_path / "muster"
    path.write_bytes(build())
    modules = sorted(
        name[:-3].replace("/", ".") for name in names if not name.startswith("__") and "__init__" not in name
    )
    script = f"""
import importlib, sys
sys.path.insert(0, {str(path)!r})
for name in {modules}:
    importlib.import_module("muster." + name)
"""
    # Neither the checkout nor a package that a node may lack is in the way of the interpreter.
    done = subprocess.run(
        [sys.executable, "-IS", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_every_subcommand_is_in_the_archive(tmp_path):
    path = tmp_path / "muster"
    path.write_bytes(build())
    for name in COMMANDS:
        if name != "storage-checkpoint":
            done = subprocess.run(
                [sys.executable, "-IS", str(path), name, "--help"], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, "") and f"muster {name}" in done.stdout


def test_registry_lists_the_same_within_the_archive(tmp_path):
    assert asked_of(tmp_path)["held"] == [list(PROBES), list(CHECKS), list(STRESSES)]


def test_probes_find_the_programs_that_they_send_within_the_archive(tmp_path):
    programs, sent = programs_of_their_own(), sent_by(asked_of(tmp_path))
    assert {"mount_program.py", "nvml_program.py", "pytorch_program.py"} <= set(programs)
    assert [name for name, text in programs.items() if text not in sent] == []
    assert len(sent) == len(programs)


def test_program_that_another_module_finds_for_its_probe_is_not_packed(tmp_path):
    """The probe then names no program, and sends none; the test above has to see it."""
    copy = copy_of(tmp_path, "copy")
    probe = copy / "plugins" / "module_utils" / "probes" / "nvml.py"
    named = 'importlib.util.find_spec("..host.nvml_program", __package__)'
    assert named in probe.read_text()
    probe.write_text(probe.read_text().replace(named, 'place_of("nvml")') + "\nfrom ..host.sent import place_of\n")
    (copy / "plugins" / "module_utils" / "host" / "sent.py").write_text(PLACE_OF)
    assert sent_by(asked_of(tmp_path, copy)).count("") == 1


def test_stresses_start_subcommands_of_the_program(tmp_path):
    started = {argv[argv.index(NODE_PROGRAM) + 1] for argv in asked_of(tmp_path)["asked"] if NODE_PROGRAM in argv}
    assert {"gpu-stress", "gpu-telemetry"} <= started <= set(COMMANDS)


@pytest.mark.parametrize("python", ["python3.9", "python3.8"])
def test_oldest_python_runs_it_and_older_ones_are_told(tmp_path, python):
    """Python 3.9, of RHEL 9, fills in ``__package__`` of what lies in a zip file later than others do."""
    found = shutil.which(python)
    answers = found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    if not answers:
        pytest.skip(f"{python} is not installed here")
    path = tmp_path / "muster"
    path.write_bytes(build())
    argv = [found, "-IS", str(path), "collect", f"--output={tmp_path}/host.tar.gz", f"--root={tmp_path}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    old = python == "python3.8"
    assert done.returncode == (1 if old else 0), done.stderr
    assert ("expected 3.9 or later" in done.stderr) == old


def test_import_that_leads_nowhere_is_an_error(tmp_path):
    copy = copy_of(tmp_path, "copy")
    cli = copy / "plugins" / "module_utils" / "cli.py"
    cli.write_text(cli.read_text() + "\nfrom .words.nothing import there\n")
    with pytest.raises(ZipappError, match=r"words/nothing"):
        build(copy)


def test_version_of_an_installed_collection(tmp_path):
    (tmp_path / "MANIFEST.json").write_text('{"collection_info": {"version": "9.8.7"}}')
    assert version_of(tmp_path) == "9.8.7"


def test_tree_without_a_program_is_an_error(tmp_path):
    with pytest.raises(ZipappError, match=r"no cli\.py"):
        build(tmp_path)
