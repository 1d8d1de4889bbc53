"""The archive: the same tree gives the same bytes."""

import io
import os
import shutil
import zipfile

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.zipapp import COLLECTION, ZipappError, build, version_of


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


def test_version_of_an_installed_collection(tmp_path):
    (tmp_path / "MANIFEST.json").write_text('{"collection_info": {"version": "9.8.7"}}')
    assert version_of(tmp_path) == "9.8.7"


def test_tree_without_a_program_is_an_error(tmp_path):
    with pytest.raises(ZipappError, match=r"no cli\.py"):
        build(tmp_path)
