"""The lookup: a file named after its content, safe against processes that ask at once."""

import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup import zipapp
from ansible_collections.muster.cluster.plugins.lookup.zipapp import LookupModule, program, written


def test_path_of_the_program(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (path,) = LookupModule().run([], {})
    assert path.startswith(str(tmp_path)) and path.endswith("/muster")
    assert "__main__.py" in zipfile.ZipFile(path).namelist()
    assert LookupModule().run([], {}) == [path]


def test_changed_file_is_written_again(tmp_path):
    path = written(b"good", tmp_path)
    path.write_bytes(b"tampered")
    assert written(b"good", tmp_path).read_bytes() == b"good"


def test_program_is_built_once_for_the_same_tree(tmp_path, monkeypatch):
    first = program(tmp_path)
    monkeypatch.setattr(zipapp, "build", lambda: pytest.fail("built again"))
    assert program(tmp_path) == first
    monkeypatch.setattr(zipapp, "digest_of", lambda: "another tree")
    monkeypatch.setattr(zipapp, "build", lambda: b"another program")
    assert program(tmp_path).read_bytes() == b"another program"


def test_note_in_a_directory_that_others_can_write_is_not_trusted(tmp_path, monkeypatch):
    program(tmp_path)
    tmp_path.chmod(0o770)
    monkeypatch.setattr(zipapp, "build", lambda: b"built again")
    assert program(tmp_path).read_bytes() == b"built again"


def test_tampered_program_is_built_again(tmp_path):
    path = program(tmp_path)
    good = path.read_bytes()
    path.write_bytes(b"tampered")
    assert program(tmp_path).read_bytes() == good


def test_many_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: written(b"good", tmp_path), range(40)))
    assert len(paths) == 1
    assert [path.name for path in paths.pop().parent.iterdir()] == ["muster"]


def test_terms_are_refused():
    with pytest.raises(AnsibleLookupError, match="expected no terms"):
        LookupModule().run(["x"], {})
