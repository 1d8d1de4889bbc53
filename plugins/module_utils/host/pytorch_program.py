"""Which PyTorch a Python has, as JSON: a program of its own, as it is that Python which looks.

``PYTHON -I -c SOURCE``; needs no other module. PyTorch is not imported: that takes seconds and touches the GPUs. Prints

- ``python``: the version of the Python (``3.12.3``);
- ``prefix``: where its environment lies, behind every link;
- ``torch``: the version of PyTorch by its own file, null where there is none;
- ``cuda``: the CUDA that it was built for, null for a build without;
- ``numpy``: the version of NumPy, null where there is none;
- ``nccl``: the version of the NCCL that came as a wheel beside it, null where none did.

The file is torch/version.py as PyTorch's build writes it (tools/generate_torch_version.py).
"""

from __future__ import annotations

import ast
import json
import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

# nvidia-nccl-cu12, nvidia-nccl-cu13: NCCL by the major version of CUDA.
NCCL_WHEEL = "nvidia-nccl-cu"


def found() -> dict[str, Any]:
    """Return what this Python has."""
    values = _assigned("torch")
    return {
        "python": platform.python_version(),
        "prefix": str(Path(sys.prefix).resolve()),
        "torch": values.get("__version__"),
        "cuda": values.get("cuda"),
        "numpy": _version("numpy") if util.find_spec("numpy") else None,
        "nccl": _nccl(),
    }


def _assigned(package: str) -> dict[str, Any]:
    """Return what a package's version.py sets to texts; nothing where there is no such package or file."""
    spec = util.find_spec(package)
    if spec is None or not spec.origin:
        return {}
    try:
        tree = ast.parse(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    told = {}
    for node in tree.body:
        # `cuda = '12.1'` up to PyTorch 2.3, `cuda: Optional[str] = '12.8'` since.
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            told.update({target.id: value.value for target in targets if isinstance(target, ast.Name)})
    return told


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _nccl() -> str | None:
    names = (str(each.metadata["Name"] or "").lower().replace("_", "-") for each in metadata.distributions())
    wheels = {name for name in names if name.startswith(NCCL_WHEEL)}
    return "+".join(sorted({str(_version(name)) for name in wheels})) or None


if __name__ == "__main__":
    print(json.dumps(found(), sort_keys=True))
