"""The task of an action that works on the control machine alone and leaves files there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class LocalAction(ActionBase):
    """Asks no host and changes none; ``arguments`` are the task's, as ``validate_argument_spec`` takes them."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    arguments: ClassVar[dict[str, Any]]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=type(self).arguments)
        return result | {"changed": False} | self.done(given)

    def done(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Do the work and return what it adds to the task's result."""
        raise NotImplementedError

    def write(self, texts: Mapping[Path, str]) -> None:
        """Put each whole text in place at once, in check mode none: a reader sees the old file or the new one.

        Raises AnsibleActionFail.
        """
        if self._task.check_mode:
            return
        try:
            for path, text in texts.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f".{path.name}.{os.getpid()}")
                try:
                    part.write_text(text, encoding="utf-8")
                    part.replace(path)
                finally:
                    part.unlink(missing_ok=True)
        except OSError as exc:
            name = self._task.action.rpartition(".")[2]
            raise AnsibleActionFail(f"{name}: cannot write {exc.filename}: {exc.strerror}") from exc
