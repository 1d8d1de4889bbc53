#!/usr/bin/python
"""Module slurm_accounts: the cluster, its accounts and their users in Slurm's accounting database."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: Set cluster, accounts and users in Slurm's accounting database
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Adds the cluster, declared accounts and their users, and sets declared limits, with C(sacctmgr) as root.
  - Everything else is not changed, including limits that are no longer declared. No account or user is removed.
  - A declared limit of TRES is the whole of it, so a kind that is not named has no limit. C(-1) is no limit.
  - A limit must have the form in which C(sacctmgr) prints it; any other form is an error.
attributes:
  check_mode: {support: full, description: Shows what would change.}
  diff_mode: {support: none, description: The result lists the steps.}
options:
  cluster: {description: Name of the cluster., type: str, required: true}
  accounts:
    description: The accounts.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the account in lower case., type: str, required: true}
      parent: {description: The account above it., type: str, default: root}
      users: {description: Names of users that may use it., type: list, elements: str, default: []}
      limits:
        description: Limits of the account as a whole, such as C(GrpTRES) or C(MaxWall).
        type: dict
        default: {}
      description: {description: Description of the account., type: str, default: ""}
      organization: {description: Organization of the account., type: str, default: ""}
  timeout_seconds: {description: Time limit of one C(sacctmgr)., type: float, default: 60}
"""

EXAMPLES = r"""
- name: Keep the accounts
  muster.cluster.slurm_accounts:
    cluster: lab
    accounts:
      - {name: physics, users: [alice], limits: {GrpTRES: gres/gpu=64}}
"""

RETURN = r"""
steps:
  description: Steps that were done, or would be.
  returned: always
  type: list
  elements: str
  sample: [add account physics, add user alice to physics]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_accounts import (
    Account,
    AccountsError,
    Database,
    plan,
)

ACCOUNT = {
    "name": {"type": "str", "required": True},
    "parent": {"type": "str", "default": "root"},
    "users": {"type": "list", "elements": "str", "default": []},
    "limits": {"type": "dict", "default": {}},
    "description": {"type": "str", "default": ""},
    "organization": {"type": "str", "default": ""},
}
ARGUMENTS = {
    "cluster": {"type": "str", "required": True},
    "accounts": {"type": "list", "elements": "dict", "options": ACCOUNT, "default": []},
    "timeout_seconds": {"type": "float", "default": 60},
}


def main() -> None:
    """Keep the accounts."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    cluster = module.params["cluster"]
    database = Database(LocalHost(), cluster, module.params["timeout_seconds"])
    done: list[str] = []
    try:
        accounts = [Account.from_params(data) for data in module.params["accounts"]]
        steps = plan(cluster, accounts, database.read())
        for step in steps:
            if not module.check_mode:
                database.take(step)
            done.append(step.what)
        left = [] if module.check_mode or not steps else plan(cluster, accounts, database.read())
        if left:
            # A second run would find them again: the declaration is in another form than the database's.
            raise AccountsError(f"still to do after all steps: {'; '.join(step.what for step in left)}")
    except AccountsError as exc:
        module.fail_json(msg=str(exc), changed=bool(done), steps=done)
    module.exit_json(changed=bool(done), steps=done)


if __name__ == "__main__":
    main()
