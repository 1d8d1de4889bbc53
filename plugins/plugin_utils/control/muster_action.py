"""What all actions have in common: arguments in, one call, and the one place where errors become Ansible's failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import replace_file
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import printable
from ansible_collections.muster.cluster.plugins.plugin_utils.control.worker import end_with_the_run

# What Ansible says where the SSH client went away before it had taken its input, and lived on for a millisecond.
NOT_SENT = "Data could not be sent to remote host"


class UnreachableError(MusterError):
    """The host that the task is delegated to could not be reached; nothing was run there."""


def show(line: str) -> None:
    """Show a line on the operator's terminal; nodes and switches have no say in what else happens there."""
    Display().display(printable(line))


def why_unreachable(said: str) -> str:
    """Return what the SSH client said, in one line where a host showed another host key than the known one."""
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" not in said:
        return said
    found = re.search(r"^SHA256:[\w+/]+", said, re.MULTILINE)
    known = re.search(r"^Offending .* in (\S+)", said, re.MULTILINE)
    return (
        f"host key changed: another machine, or reinstalled; found {found[0] if found else 'another key'}, "
        f"expected that in {known[1] if known else 'known_hosts'}. Compare it on the host's console first"
    )


class MusterAction(ActionBase):
    """One task of ours; ``arguments`` are those that ``validate_argument_spec`` takes."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    arguments: ClassVar[dict[str, Any]]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result; raises AnsibleActionFail with the text of Muster's error."""
        end_with_the_run()
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=type(self).arguments)
        self._task_vars = task_vars or {}
        name = self._task.action.rpartition(".")[2]
        try:
            done = {**result, "changed": False, **self.done(given)}
        except UnreachableError as exc:
            # Not "from exc": Ansible shows the text of the cause too, as it is.
            raise AnsibleConnectionFailure(printable(str(exc))) from None
        except MusterError as exc:
            raise AnsibleActionFail(printable(f"{name}: {exc}")) from None
        if "warnings" in done:
            # Ansible shows them as they are.
            done["warnings"] = [printable(str(warning)) for warning in done["warnings"]]
        return done

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Do the work and return what it adds to the task's result."""
        raise NotImplementedError

    @property
    def check(self) -> bool:
        """Whether nothing may change."""
        return bool(self._task.check_mode)

    @property
    def host(self) -> str:
        """Name of the host that the task is about."""
        return str(self._task_vars.get("inventory_hostname", ""))

    @property
    def batch(self) -> list[str]:
        """Names of the hosts for which the play runs this task at the same time."""
        return [str(host) for host in self._task_vars.get("ansible_play_batch", [])]

    def command(self, line: str) -> dict[str, Any]:
        """Return rc, stdout and stderr of a shell command on the task's host; raises UnreachableError."""
        try:
            return dict(self._low_level_execute_command(line))
        except AnsibleConnectionFailure as exc:
            raise UnreachableError(why_unreachable(to_text(exc))) from exc

    def execute(self, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of one of our modules on the task's host; raises UnreachableError."""
        try:
            result = self._execute_module(
                module_name=f"muster.cluster.{module}", module_args=arguments, task_vars=self._task_vars
            )
        except AnsibleConnectionFailure as exc:
            said = to_text(exc)
            if NOT_SENT in said:
                # A client that is given nothing is heard to its end: it may have to tell of another machine.
                self.command("true")
            raise UnreachableError(why_unreachable(said)) from exc
        return dict(result)


class LocalAction(MusterAction):
    """A task that asks no host and changes none: it works on the control machine alone and may leave files there."""

    _requires_connection = False

    def changed(self, texts: Mapping[Path, str]) -> dict[Path, str]:
        """Return the texts whose files say something else or are not there. Raises AnsibleActionFail."""
        try:
            return {
                path: text
                for path, text in texts.items()
                if not path.exists() or path.read_text(encoding="utf-8") != text
            }
        except OSError as exc:
            name = self._task.action.rpartition(".")[2]
            raise AnsibleActionFail(f"{name}: cannot read {exc.filename}: {exc.strerror}") from exc

    def write(self, texts: Mapping[Path, str]) -> None:
        """Put each whole text in place at once, in check mode none: a reader sees the old file or the new one.

        Raises AnsibleActionFail.
        """
        if self.check:
            return
        try:
            for path, text in texts.items():
                replace_file(path, text)
        except OSError as exc:
            name = self._task.action.rpartition(".")[2]
            raise AnsibleActionFail(f"{name}: cannot write {exc.filename}: {exc.strerror}") from exc
