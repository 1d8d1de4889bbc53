"""Keys are created once, and refused where their reader would refuse them."""

import base64
import getpass

import pytest
from ansible_collections.muster.cluster.plugins.modules.slurm_keys import KeyTrouble, make

ME = getpass.getuser()


def key(tmp_path, **more):
    sizes = {"bytes_least": 32, "bytes_most": 1024, "bytes_made": 128}
    return {"path": str(tmp_path / "munge.key"), "owner": ME, **sizes, **more}


def test_key_is_made_once(tmp_path):
    first = make([key(tmp_path)], check=False)
    path = tmp_path / "munge.key"
    assert first["changed"] and path.stat().st_mode & 0o777 == 0o400 and len(path.read_bytes()) == 128
    again = make([key(tmp_path)], check=False)
    assert not again["changed"] and again["contents"] == first["contents"]
    assert base64.b64decode(again["contents"][str(path)]) == path.read_bytes()


def test_check_mode_makes_nothing(tmp_path):
    foreseen = make([key(tmp_path)], check=True)
    assert foreseen["changed"] and foreseen["contents"] == {str(tmp_path / "munge.key"): ""}
    assert list(tmp_path.iterdir()) == []


def test_key_of_a_user_who_comes_with_the_package_belongs_to_root_until_then(tmp_path):
    assert make([key(tmp_path, owner="no-such-user")], check=False)["changed"]
    assert (tmp_path / "munge.key").stat().st_uid == 0


@pytest.mark.parametrize("size", [32, 1024])
def test_sizes_that_munge_takes(tmp_path, size):
    (tmp_path / "munge.key").write_bytes(b"k" * size)
    assert not make([key(tmp_path)], check=False)["changed"]


@pytest.mark.parametrize("size", [0, 31, 1025])
def test_size_that_munge_refuses_is_an_error_and_the_key_is_left(tmp_path, size):
    (tmp_path / "munge.key").write_bytes(b"k" * size)
    with pytest.raises(KeyTrouble, match=f"munge.key has {size} bytes, expected 32 to 1024; it was not changed"):
        make([key(tmp_path)], check=False)
    assert len((tmp_path / "munge.key").read_bytes()) == size
