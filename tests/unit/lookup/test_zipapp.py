"""The lookup: a file named after its content, safe against processes that ask at once."""

import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup.zipapp import LookupModule, written


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


def test_many_at_once(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: written(b"good", tmp_path), range(40)))
    assert len(paths) == 1
    assert [path.name for path in paths.pop().parent.iterdir()] == ["muster"]


def test_terms_are_refused():
    with pytest.raises(AnsibleLookupError, match="expected no terms"):
        LookupModule().run(["x"], {})
