"""Action of ``muster.cluster.launch_collect``; its documentation stands with the module of the same name."""

import base64
import io
import os
import tarfile

from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.plugin_utils import concluding, remote


class ActionModule(ActionBase):
    """Brings one node's record home, or calls a refused launch off there."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        host = task_vars["inventory_hostname"]
        hosts = [node["name"] for node in arguments["nodes"]]
        starts = {name: task_vars["hostvars"][name].get("__launch_start") or {} for name in hosts}
        mine = starts.get(host, {})
        python, state_dir = str(mine.get("python") or arguments["python"]), str(arguments["state_dir"])
        job = str(arguments["job"])
        if self._task.check_mode:
            return dict(result, changed=False, skipped=True)
        refused = concluding.refusal(starts)
        if refused:
            if mine.get("refused") or mine.get("attached"):
                return dict(result, changed=False, skipped=True)
            request = {"do": "call_off", "state_dir": state_dir, "job": job, "run_id": arguments["run_id"], "reason": refused}
        else:
            request = {"do": "collect", "state_dir": state_dir, "job": job, "run_id": mine.get("run_id")}
        try:
            answer = remote.request(self, python, request)
        except remote.NodeError as error:
            return dict(result, changed=False, lost=str(error), result=None, state="unknown")
        if answer.get("tar"):
            shared = str(arguments["record"]) if host == hosts[0] else None
            unpack(base64.b64decode(answer.pop("tar")), os.path.join(arguments["record"], host), shared)
        answer.pop("tar", None)
        return dict(result, **dict(answer, changed=False))


def unpack(data, folder, shared=None):
    """A node's record into ``folder``: plain files with safe names only.

    Args:
        data: the gzipped tar.
        folder: where it goes.
        shared: where the files below ``environment/`` go instead, which are the whole job's.
    """
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        members = archive.getmembers()
        common = [member for member in members if shared and member.name.startswith("environment/")]
        archive.extractall(folder, [member for member in members if member not in common], filter="data")
        if shared:
            archive.extractall(shared, common, filter="data")
