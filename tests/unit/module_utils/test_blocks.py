"""Several outputs as one text, and back."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import (
    is_listed,
    joined,
    listed,
    read_files,
    split,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output

OUTPUTS = {
    "mlx5_0": Output("state\n\nrate: 400\n"),
    "mlx5_1": Output("", "no such device (mlx5_1)\nmore", 19),
    "mlx5_2": Output(rc=None, timed_out=True, error="mlxlink: no answer within 5 s"),
    "mlx5_3": Output(""),
}


def test_every_output_comes_back_with_what_became_of_it():
    back = split(joined(OUTPUTS).stdout)
    assert list(back) == list(OUTPUTS)
    assert back["mlx5_0"] == Output("state\n\nrate: 400\n")
    assert back["mlx5_1"] == Output("", "no such device [mlx5_1]", 19)
    assert (back["mlx5_2"].rc, back["mlx5_2"].error) == (None, "mlxlink: no answer within 5 s")
    assert back["mlx5_3"] == Output("")


@pytest.mark.parametrize("text", ["", "no heading\n", "==> cut off <=", "\x00\n==>  <==\n"])
def test_text_without_headings_holds_nothing(text):
    assert split(text) == {}


def test_what_head_prints_is_understood():
    assert split("==> /sys/a <==\n1\n\n==> /sys/b <==\n2\n") == {"/sys/a": Output("1\n"), "/sys/b": Output("2\n")}


def test_files_under_a_root_are_read_by_pattern(tmp_path):
    for name in ("sys/a[0]/rate", "sys/b/rate"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name + "\n")
    (tmp_path / "sys/c/rate").mkdir(parents=True)
    files = split(read_files(LocalHost(root=str(tmp_path)), "/sys/*/rate", "/sys/b/*", "/none/*").stdout)
    assert list(files) == ["/sys/a[0]/rate", "/sys/b/rate", "/sys/c/rate"]
    assert files["/sys/a[0]/rate"].stdout == "sys/a[0]/rate\n"
    assert files["/sys/c/rate"].rc is None and "directory" in files["/sys/c/rate"].error


def test_lost_output_is_missed_and_the_one_before_it_not_trusted():
    text = listed({name: Output(f"{name}\n") for name in "abcd"}).stdout
    assert is_listed(text) and list(split(text)) == ["a", "b", "c", "d"]
    # The value of b and the heading of c are gone: c's value stands under b.
    damaged = split(text.replace("b\n\n==> c <==\n", ""))
    assert [damaged[name].rc for name in "abcd"] == [0, None, None, 0]


def test_no_files_are_told_from_no_answer():
    assert is_listed(listed({}).stdout) and split(listed({}).stdout) == {}
    assert not is_listed("")
