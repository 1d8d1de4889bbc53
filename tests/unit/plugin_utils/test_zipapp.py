"""The archive: the same tree gives the same bytes."""

import io
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.cli import COMMANDS
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import (
    COLLECTION,
    ZipappError,
    build,
    version_of,
)


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
