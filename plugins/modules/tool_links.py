#!/usr/bin/python
"""Module tool_links: programs of unpacked tools that start on this host, each with a link in the path."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tool_links
short_description: Link programs into the path once they can start
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Asks C(ldd) which shared libraries each program does not find on this host, and fails with their names before
    anything is linked. The driver's own, C(libcuda.so.1) and C(libnvidia-ml.so.1), may be missing, as a driver may come
    up later. A node without them fails preflight.
  - Fails for a program of another processor, or one that needs a newer C library. Scripts need no library.
  - Makes a link of each program's name. A file of that name is replaced.
attributes:
  check_mode:
    support: full
    description: Says what it would link. What is missing is a warning, as packages may not be installed yet.
  diff_mode: {support: full, description: Shows the links that change.}
options:
  place: {description: Directory of the unpacked programs., type: path, required: true}
  programs: {description: Their names., type: list, elements: str, required: true}
  directory: {description: Where the links are., type: path, default: /usr/local/bin}
seealso:
  - module: muster.cluster.tool_archive
"""

EXAMPLES = r"""
- name: Link nccl-tests into the path
  muster.cluster.tool_links:
    place: /opt/muster/nccl-tests-2.19.6-3f6c0a1b2c3d
    programs: [all_reduce_perf, alltoall_perf]
"""

RETURN = r"""
linked:
  description: Links that were made, or would be.
  returned: always
  type: list
  elements: str
  sample: [/usr/local/bin/all_reduce_perf]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.host.shared_libraries import (
    LibraryError,
    missing_libraries,
    missing_words,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_link

ARGUMENTS = {
    "place": {"type": "path", "required": True},
    "programs": {"type": "list", "elements": "str", "required": True},
    "directory": {"type": "path", "default": "/usr/local/bin"},
}


def stopped(programs: list[Path]) -> list[str]:
    """Return why programs do not start on this host, in words; empty if all do."""
    # Jobs do not have what this session's environment adds: an empty path counts as none (ld.so(8)).
    host = LocalHost(environment={"LD_LIBRARY_PATH": "", "LD_PRELOAD": ""})
    missing, reasons = {}, []
    for program in programs:
        try:
            missing[program.name] = missing_libraries(host, program)
        except LibraryError as exc:
            reasons.append(str(exc))
        except OSError as exc:
            reasons.append(f"{program}: {exc.strerror}")
    return reasons + missing_words(missing)


def target_of(link: Path) -> str:
    """Return where a link leads, "" for anything else; raises OSError."""
    return str(link.readlink()) if link.is_symlink() else ""


def main() -> None:
    """Check all programs, then link those that are not linked yet."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    programs = [Path(module.params["place"], name) for name in module.params["programs"]]
    # In check mode the tools may not be unpacked yet.
    there = [program for program in programs if program.exists()] if module.check_mode else programs
    reasons = stopped(there)
    if reasons and not module.check_mode:
        module.fail_json(msg="; ".join(reasons))
    for reason in reasons:
        module.warn(reason)
    links = {Path(module.params["directory"], program.name): program for program in programs}
    try:
        before = {link: target_of(link) for link in links}
        wanted = {link: program for link, program in links.items() if before[link] != str(program)}
        if not module.check_mode:
            for link, program in wanted.items():
                link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                replace_link(link, program)
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename2 or exc.filename}: {exc.strerror}")
    module.exit_json(
        changed=bool(wanted),
        linked=[str(link) for link in wanted],
        diff={
            "before": "".join(f"{link} -> {before[link]}\n" for link in wanted if before[link]),
            "after": "".join(f"{link} -> {program}\n" for link, program in wanted.items()),
        },
    )


if __name__ == "__main__":
    main()
