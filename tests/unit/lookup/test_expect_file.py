"""The lookup: the expectations as a file that differs when they do."""

import json
from pathlib import Path

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup.expect_file import LookupModule


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_file_holds_the_expectations_and_everybody_may_read_it():
    (path,) = LookupModule().run([{"class": "x", "gpu": None}])
    assert Path(path).name == "expect.json" and Path(path).stat().st_mode & 0o777 == 0o644
    assert json.loads(Path(path).read_text(encoding="utf-8")) == {"class": "x", "gpu": None}


def test_other_expectations_are_another_file_and_the_same_the_same():
    (one,) = LookupModule().run([{"class": "x", "gpu": None}])
    assert LookupModule().run([{"gpu": None, "class": "x"}]) == [one]
    assert LookupModule().run([{"class": "y", "gpu": None}]) != [one]


@pytest.mark.parametrize("terms", [[], [{}, {}], ["x"], [None]])
def test_other_terms_are_refused(terms):
    with pytest.raises(AnsibleLookupError, match="expected one term"):
        LookupModule().run(terms)
