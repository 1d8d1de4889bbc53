"""What a hardware class expects of a host: its shape, checked before anything is measured against it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ADDRESS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?")


class ExpectationError(ValueError):
    """Expectations that cannot be judged by: names the key, what was found and what was expected."""


def pci_address(text: str) -> str | None:
    """Return a PCI address (``00000000:1B:00.0``, NVRM's ``0000:1b:00``) as ``0000:1b:00.0``, or None if it is none."""
    match = _ADDRESS.fullmatch(text.strip())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"


def gpu_subjects(expect: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each GPU part by PCI address: ``{"0000:1b:00.0": "gpu SXM1 0000:1b:00.0"}``.

    A class without GPUs says so with ``gpu: null``; a missing key is an error (KeyError), not "no GPUs".
    """
    gpu = expect["gpu"]
    return {} if gpu is None else {part["address"]: f"gpu {part['slot']} {part['address']}" for part in gpu["parts"]}


def check_expectations(expect: Any) -> None:
    """Raise ExpectationError unless ``expect`` has every key that the checks judge by, each of the right type."""
    _mapping(expect, "expectations")
    _text(expect, "class")
    if _member(expect, "gpu", "") is not None:
        _check_gpu(expect["gpu"])
    cpu = _section(expect, "cpu")
    _number(cpu, "sockets", "cpu.", whole=True, least=1)
    _number(cpu, "cores", "cpu.", whole=True, least=1)
    memory = _section(expect, "memory")
    _number(memory, "mib", "memory.", least=1)
    _number(memory, "tolerance_percent", "memory.")
    _number(_section(expect, "clock"), "offset_ms", "clock.")
    paths = _member(_section(expect, "disk"), "paths", "disk.")
    _list(paths, "disk.paths")
    for index, item in enumerate(paths):
        where = f"disk.paths[{index}]"
        _mapping(item, where)
        if not _text(item, "path", f"{where}.").startswith("/"):
            raise ExpectationError(f"{where}.path is {item['path']!r}, expected an absolute path")
        _number(item, "free_gib", f"{where}.")
    tools = _section(expect, "tools")
    _text(tools, "path", "tools.")
    _text(tools, "root", "tools.")


def _check_gpu(gpu: Any) -> None:
    _mapping(gpu, "gpu")
    _text(gpu, "model", "gpu.")
    count = _number(gpu, "count", "gpu.", whole=True, least=1)
    _number(gpu, "memory_mib", "gpu.", whole=True, least=1)
    parts = _member(gpu, "parts", "gpu.")
    _list(parts, "gpu.parts")
    for index, part in enumerate(parts):
        where = f"gpu.parts[{index}]"
        _mapping(part, where)
        _text(part, "slot", f"{where}.")
        if pci_address(_text(part, "address", f"{where}.")) != part["address"]:
            raise ExpectationError(f"{where}.address is {part['address']!r}, expected a form such as 0000:1b:00.0")
    for key in ("slot", "address"):
        seen = [part[key] for part in parts]
        twice = sorted({value for value in seen if seen.count(value) > 1})
        if twice:
            raise ExpectationError(f"gpu.parts: {key} {', '.join(twice)} is there twice, expected once")
    if len(parts) != count:
        raise ExpectationError(f"gpu.parts has {len(parts)} entries, expected gpu.count = {count}")


def _member(data: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in data:
        raise ExpectationError(f"{where}{key} is missing")
    return data[key]


def _section(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value: Mapping[str, Any] = _member(data, key, "")
    _mapping(value, key)
    return value


def _mapping(value: Any, where: str) -> None:
    if not isinstance(value, Mapping):
        raise ExpectationError(f"{where} is {type(value).__name__}, expected a mapping")


def _list(value: Any, where: str) -> None:
    if not isinstance(value, list):
        raise ExpectationError(f"{where} is {type(value).__name__}, expected a list")


def _text(data: Mapping[str, Any], key: str, where: str = "") -> str:
    value: Any = _member(data, key, where)
    if not isinstance(value, str) or not value:
        raise ExpectationError(f"{where}{key} is {value!r}, expected a text")
    return value


def _number(data: Mapping[str, Any], key: str, where: str, *, whole: bool = False, least: float = 0) -> float:
    value = _member(data, key, where)
    kinds = int if whole else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool) or not value >= least:
        kind = "a whole number" if whole else "a number"
        raise ExpectationError(f"{where}{key} is {value!r}, expected {kind} of at least {least:g}")
    return value
