"""The JSON of ``dcgmi diag -j`` (NVIDIA/DCGM, dcgmi/Diag.cpp of several releases, and recorded outputs).

- DCGM 2 and 3: root "DCGM GPU Diagnostic", later "DCGM Diagnostic"; Deployment tests have one result for the host, the
  others one per GPU, named by ``gpu_ids`` ("0" or "0,1") or ``gpu_id``; ``warnings`` is a text or a list.
- DCGM 4: all Deployment tests are one, "software"; results name an entity; ``test_summary`` stands beside them.

Info is cut off at 16 messages in DCGM 4, and only says what was measured: nothing is concluded from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..host.host import Unreadable
from .dcgm import UNKNOWN, Report, Result, Trouble, one_line, status_of, test_of

_GPU_GROUP = 1


def json_report(text: str) -> Report:
    """Return the results of the document that ``text`` begins with; raises Unreadable."""
    try:
        root, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"neither JSON nor a table: {exc}; begins with {text.strip()[:60]!r}") from exc
    runs = _list(root["iterations"]) if "iterations" in root else [root]
    if not runs:
        raise Unreadable("no iteration of the diagnostic, expected one at least")
    results: list[Result] = []
    for run in runs:
        results += _run_results(_mapping(run, "the document"))
    return Report(tuple(results), True, _version(_mapping(runs[0], "the document")))


def _run_results(root: Mapping[str, Any]) -> Iterator[Result]:
    key = next((key for key in ("DCGM Diagnostic", "DCGM GPU Diagnostic") if key in root), None)
    if key is None:
        raise Unreadable(f"no key 'DCGM Diagnostic' or 'DCGM GPU Diagnostic', found {', '.join(list(root)[:5])}")
    body = _mapping(root[key], key)
    for place in (body, root):
        if "runtime_error" in place:
            raise Unreadable(f"the diagnostic did not run: {one_line(str(place['runtime_error']))}")
    if not body.get("test_categories"):
        raise Unreadable("no test_categories: no test was run")
    for category in _list(body["test_categories"]):
        heading = str(_mapping(category, "a category").get("category", ""))
        for test in _list(category.get("tests")):
            yield from _test_results(_mapping(test, f"a test of {heading}"), heading)
    # An error beside the results leaves those that failed, and puts the others in doubt.
    for said in (place[key] for place in (body, root) for key in ("error", "errors") if place.get(key)):
        yield Result("diagnostic_run", "the diagnostic itself", None, UNKNOWN, (Trouble(one_line(str(said))),))


def _test_results(test: Mapping[str, Any], category: str) -> Iterator[Result]:
    name = test.get("name")
    if not isinstance(name, str) or not name:
        raise Unreadable(f"a test of category {category!r} has no name")
    canonical = test_of(name, category)
    results = []
    for entry in _list(test.get("results")):
        data = _mapping(entry, f"a result of {name}")
        status = status_of(data.get("status"))
        troubles = tuple(each for key in ("warnings", "error", "errors") for each in _troubles(data.get(key)))
        for gpu in _gpus(data, name):
            results.append(Result(canonical, name, gpu, status, troubles))
    numbers = [result.gpu for result in results if result.gpu is not None]
    if len(set(numbers)) != len(numbers):
        raise Unreadable(f"test {name} has two results for one GPU ({', '.join(map(str, numbers))})")
    summary = test.get("test_summary")
    if isinstance(summary, Mapping):
        status, troubles = status_of(summary.get("status")), _troubles(summary.get("warnings"))
        # The summary repeats what the entities say; what none of them says is about the host.
        told = {trouble.text for result in results for trouble in result.troubles}
        if status not in {result.status for result in results} or not {each.text for each in troubles} <= told:
            results.append(Result(canonical, name, None, status, troubles))
    yield from results


def _gpus(data: Mapping[str, Any], name: str) -> list[int | None]:
    """Return the GPUs that a result is about, or [None] for the host."""
    if "entity_id" in data or "entity_group" in data or "entity_group_id" in data:
        group = data.get("entity_group", data.get("entity_group_id"))
        if group not in ("GPU", _GPU_GROUP):
            return [None]
        numbers: list[Any] = [data.get("entity_id")]
    elif "gpu_ids" in data:
        numbers = str(data["gpu_ids"]).split(",")
    elif "gpu_id" in data:
        numbers = [data["gpu_id"]]
    else:
        return [None]
    found: list[int | None] = []
    for number in numbers:
        if isinstance(number, bool) or not re.fullmatch(r"[0-9]{1,4}", str(number).strip()):
            raise Unreadable(f"a result of {name} is about GPU {number!r}, expected a number")
        found.append(int(str(number).strip()))
    return found


def _troubles(data: Any) -> tuple[Trouble, ...]:
    troubles = []
    for entry in data if isinstance(data, list) else [data]:
        if isinstance(entry, Mapping):
            # Deployment tests of DCGM 3 spell the key in the plural.
            text, severity = entry.get("warning", entry.get("warnings", "")), entry.get("error_severity")
            troubles.append(Trouble(one_line(str(text)), severity if type(severity) is int else None))
        elif entry:
            troubles.append(Trouble(one_line(str(entry))))
    return tuple(troubles)


def _version(root: Mapping[str, Any]) -> str | None:
    bodies = [root.get("metadata"), root, root.get("DCGM GPU Diagnostic"), root.get("DCGM Diagnostic")]
    versions = [body.get("version") for body in bodies if isinstance(body, Mapping)]
    return next((version for version in versions if isinstance(version, str)), None)


def _mapping(data: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise Unreadable(f"{what} is a {type(data).__name__}, expected a mapping")
    return data


def _list(data: Any) -> list[Any]:
    if data is None:
        return []
    if not isinstance(data, list):
        raise Unreadable(f"found a {type(data).__name__} where a list of categories, tests or results was expected")
    return data
