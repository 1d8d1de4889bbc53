"""What a Python says of its PyTorch: real ones, made ones, and answers that are none."""

import json
import os
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import pytorch

from tests.typed import typed
from tests.unit.module_utils.conftest import HEALTHY

TEXT = (HEALTHY / "pytorch.json").read_text()
# As PyTorch's build writes it, up to 2.3 and since.
OLD = "__version__ = '2.3.1+cu121'\ndebug = False\ncuda = '12.1'\ngit_version = '63d5'\nhip = None\n"
NEW = (
    "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n__version__ = '2.8.0+cu128'\n"
    "cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"
)
CPU = "from typing import Optional\n__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
LOUD = "raise SystemExit('imported')"


def wheel(name, version):
    """Return what pip leaves of a wheel."""
    return {f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}


NUMPY = {"numpy/__init__.py": LOUD, **wheel("numpy", "2.3.2")}


def environment(place, files):
    """Make a virtual environment with these files among its packages; return its Python."""
    version = "{}.{}".format(*sys.version_info[:2])
    for name, text in files.items():
        path = place / f"lib/python{version}/site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    base = Path(sys.executable).resolve()
    (place / "bin").mkdir(parents=True)
    (place / "bin/python3").symlink_to(base)
    (place / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    return place / "bin/python3"


def seen(python, expect):
    """Return what the probe makes of a Python of this machine."""
    declared = typed({**expect, "pytorch": {"python": str(python), "version": None}})
    return pytorch.parse(pytorch.collect(LocalHost(), declared))


def test_healthy_answer_is_read():
    assert pytorch.parse(Output(TEXT)) == pytorch.PyTorch(
        "3.12.3", "/opt/muster/pytorch-5f1c9a02e7d4", "2.8.0+cu128", "12.8", "2.3.2", "2.27.3"
    )


@pytest.mark.parametrize(
    ("text", "torch", "cuda"), [(OLD, "2.3.1+cu121", "12.1"), (NEW, "2.8.0+cu128", "12.8"), (CPU, "2.13.0+cpu", None)]
)
def test_environment_behind_a_link_says_what_it_has_and_imports_nothing(tmp_path, expect, text, torch, cuda):
    files = {"torch/version.py": text, "torch/__init__.py": LOUD, **NUMPY, **wheel("nvidia_nccl_cu12", "2.27.3")}
    environment(tmp_path / "pytorch-1", files)
    (tmp_path / "pytorch").symlink_to("pytorch-1")
    found = seen(tmp_path / "pytorch/bin/python3", expect)
    assert (found.torch, found.cuda, found.numpy, found.nccl) == (torch, cuda, "2.3.2", "2.27.3")
    assert (found.prefix, found.absent) == (str(tmp_path / "pytorch-1"), "")
    assert found.python.startswith("{}.{}.".format(*sys.version_info[:2]))


def test_packages_of_the_callers_variables_are_not_the_environments(tmp_path, expect, monkeypatch):
    (tmp_path / "elsewhere/torch").mkdir(parents=True)
    (tmp_path / "elsewhere/torch/__init__.py").write_text("")
    (tmp_path / "elsewhere/torch/version.py").write_text(NEW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    found = seen(environment(tmp_path / "pytorch-1", NUMPY), expect)
    assert (found.torch, found.cuda, found.numpy, found.nccl) == (None, None, "2.3.2", None)


@pytest.mark.parametrize("text", ["", "__version__ = \n", "__version__ = compute()\n", None])
def test_torch_that_names_no_version_is_none(tmp_path, expect, text):
    # As pip leaves it that was killed.
    files = {"torch/__init__.py": LOUD, **({} if text is None else {"torch/version.py": text})}
    found = seen(environment(tmp_path / "pytorch-1", files), expect)
    assert (found.torch, found.numpy) == (None, None)


@pytest.mark.pytorch
def test_real_pytorch_is_read(torch, expect):
    found = seen(torch.parents[2] / "bin/python3", expect)
    assert found.torch and found.torch.endswith("+cpu") and found.numpy
    assert (found.cuda, found.prefix) == (None, os.path.realpath(torch.parents[2]))


def test_python_that_is_not_there_is_an_answer(expect):
    found = seen("/nonexistent/bin/python3", expect)
    assert found.absent == "/nonexistent/bin/python3: No such file or directory"
    assert found.torch is None


def test_python_that_hangs_is_unreadable(tmp_path, expect, monkeypatch):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    monkeypatch.setattr(pytorch, "TIMEOUT_SECONDS", 0.2)
    declared = typed({**expect, "pytorch": {"python": str(python), "version": None}})
    assert pytorch.collect(LocalHost(), declared).timed_out


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT[:40],
        "[]",
        "{}",
        '{"absent": ""}',
        '{"absent": "x", "torch": "2.8.0"}',
        *(
            json.dumps({**json.loads(TEXT), **wrong})
            for wrong in (
                {"torch": 2.8},
                {"torch": "new"},
                {"torch": "2.8.0 or so"},
                {"cuda": []},
                {"python": None},
                {"prefix": "pytorch"},
                {"prefix": None},
                {"more": "1.0"},
            )
        ),
    ],
)
def test_what_is_cut_off_or_of_another_kind_is_unreadable(text):
    with pytest.raises(Unreadable):
        pytorch.parse(Output(text))


def test_python_that_failed_is_unreadable_with_its_last_words():
    with pytest.raises(Unreadable, match="exit status 1: ImportError: no such thing"):
        pytorch.parse(Output(TEXT, "Traceback\nImportError: no such thing\n", 1))
