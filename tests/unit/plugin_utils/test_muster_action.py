"""What nodes, switches and their logs say reaches the operator's terminal as text and as nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import MusterAction, show

ESCAPE, TEXT = "gpu-01: \x1b]0;owned\x07 \x1b[2J", r"gpu-01: \u001b]0;owned\u0007 \u001b[2J"


class Action(MusterAction):
    """An action that says what a node said."""

    arguments = {}  # noqa: RUF012 -- as the other actions have it
    said: Any = None

    def validate_argument_spec(self, *_: Any, **__: Any) -> Any:
        return None, {}

    def done(self, given: Any) -> dict[str, Any]:
        if isinstance(self.said, Exception):
            raise self.said
        return dict(self.said)


class Task:
    """As much of a task as an action asks for."""

    action = "muster.cluster.record"


@pytest.fixture
def action(monkeypatch: pytest.MonkeyPatch) -> Action:
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    made = Action.__new__(Action)
    made._task = Task()
    return made


def test_line_that_is_shown_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(Display, "display", lambda _self, line: lines.append(line))
    show(ESCAPE)
    assert lines == [TEXT]


def test_failure_and_warnings_steer_no_terminal(action: Action) -> None:
    action.said = MusterError(ESCAPE)
    with pytest.raises(AnsibleActionFail) as failed:
        action.run()
    assert str(failed.value) == f"record: {TEXT}"
    action.said = {"warnings": [ESCAPE], "refused": [{"reason": ESCAPE}]}
    assert action.run() == {"changed": False, "warnings": [TEXT], "refused": [{"reason": ESCAPE}]}
