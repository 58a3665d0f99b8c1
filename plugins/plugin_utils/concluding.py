"""The end of a launch from what every host answered: one outcome, one sentence, one table."""

import os

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import causes, files

from . import screen, unreachable


def refusal(starts):
    """The sentence of a launch that some host refused, or None.

    Args:
        starts: ``{host: result of its start}`` in node-rank order; a refusal has ``refused``.
    """
    refused = [(host, why) for host, why in ((host, not_started(host, result)) for host, result in starts.items()) if why]
    if not refused:
        mixed = {bool(result.get("attached")) for result in starts.values()}
        if len(mixed) == 2:
            there = [host for host, result in starts.items() if result.get("attached")]
            return "launch refused: the job runs on {} but on no other host of this launch; stop it first, or use another " \
                "job name".format(", ".join(there))  # fmt: skip
        return None
    host, text = refused[0]
    more = " (and {} more host{} refused: {})".format(
        len(refused) - 1, "" if len(refused) == 2 else "s", ", ".join(other for other, _ in refused[1:4])
    )
    prefix = "" if text.startswith(host) else host + ": "
    return "launch refused: {}{}{}".format(prefix, text, more if len(refused) > 1 else "")


def not_started(host, result):
    """Why a host did not start, or None; a task that failed before its action ran counts too."""
    if result.get("refused"):
        return result["refused"]
    return unasked(host, result)


def result_of(job, collected):
    """The job's one result among those of its nodes.

    Args:
        job: its name.
        collected: ``{host: {"state", "result"}}`` in node-rank order; a host that cannot be asked has ``lost``.
    """
    results = [(host, answer["result"]) for host, answer in collected.items() if answer.get("result")]
    hosts = list(collected)
    for host, result in results:
        # The head's own verdict speaks of all nodes, wherever a copy of it lies.
        if host == hosts[0] or len(result.get("nodes", [])) == len(hosts) > 1:
            return result
    events = [result["cause"] for _, result in results if result.get("cause")]
    if results and not events:
        return results[0][1]
    cause = causes.pick(events)
    if cause is None:
        answer = collected[hosts[0]]
        why = answer.get("lost") or "its agent ended without a result (state {})".format(answer.get("state"))
        cause = {
            "kind": "lost",
            "host": hosts[0],
            "time": 0,
            "text": "{} is lost: {}; see whether the host is up and what ended the agent there".format(hosts[0], why),
        }
    nodes = [node for _, result in results for node in result.get("nodes", [])]
    return {
        "job": job,
        "outcome": "failed",
        "sentence": "job {} failed: {}".format(job, causes.sentence(cause)),
        "cause": cause,
        "nodes": nodes,
        "restarts": [],
        "warnings": [],
    }


def set_record_aside(record, run_id):
    """Keep the record of another run of the same name: it is renamed to ``<job>-<its run id>``."""
    found = files.read_json(os.path.join(record, "plan.json"), {}).get("run_id")
    if os.path.isdir(record) and found != run_id:
        os.rename(record, "{}-{}".format(record, found or os.path.getmtime(record)))


def table(nodes, result):
    """Lines of the closing table: host, node rank, ranks, exit, seconds."""
    known = {node["name"]: node for node in result.get("nodes", [])}
    rows = [("host", "node rank", "ranks", "exit", "seconds")]
    for rank, node in enumerate(nodes):
        found = known.get(node["name"], {})
        ranks = found.get("ranks", [])
        how = "lost" if found.get("lost") or not found else screen.shown_exit(ranks, found.get("exits", {}), result["outcome"])
        seconds = found.get("seconds")
        rows.append(
            (node["name"], str(rank), screen.shown_ranks(ranks), how, "-" if seconds is None else "{:.1f}".format(seconds))
        )
    return screen.table(rows)


def quoted(cause):
    """The traceback of the cause as lines, each marked with host and rank; empty where there is none."""
    error = (cause or {}).get("error") or {}
    mark = "{}:{} | ".format(cause.get("host"), cause.get("rank")) if error else ""
    return [mark + screen.clean(line) for line in error.get("traceback", "").splitlines()]


def unasked(host, answer):
    """Why a host did not answer a module's task, or None."""
    if answer.get("unreachable"):
        return "{} is unreachable: {}".format(host, unreachable.explain(str(answer.get("msg", ""))))
    if answer.get("failed"):
        return "{}: {}".format(host, answer.get("msg"))
    return None if answer else "{} was not asked".format(host)


def stop_refusal(job, found):
    """The sentence of a stop that could not do its work everywhere, or None; ``found`` maps hosts to answers."""
    troubles = unasked_lines(found)
    if troubles:
        return "stop failed: {}; what ran of job {} there may still run".format("; ".join(troubles), job)
    if all(answer["state"] == "absent" for answer in found.values()):
        return "stop refused: found no job {} on {}, expected its name; playbooks/status.yml lists what there is".format(
            job, ", ".join(found)
        )
    return None


def stopped(job, found):
    """Lines that tell how a stop went."""
    rows = [("host", "job", "state")] + [(host, job, answer["state"]) for host, answer in found.items()]
    told = next((answer["sentence"] for answer in found.values() if answer.get("sentence")), None)
    return screen.table(rows) + ([told] if told else [])


def unasked_lines(found):
    """One sentence for every host that did not answer."""
    return [text for text in (unasked(host, answer) for host, answer in found.items()) if text]


def status_rows(found, job, when):
    """Rows of the status table; ``when`` formats seconds since the epoch."""
    rows = [("job", "host", "node rank", "ranks", "state", "restarts", "since", "by")]
    for host, answer in found.items():
        if unasked(host, answer):
            rows.append((job or "?", host, "-", "-", "unknown", "-", "-", "-"))
            continue
        for name, known in sorted(answer["jobs"].items()):
            if known["state"] == "absent":
                rows.append((name, host, "-", "-", "absent", "-", "-", "-"))
                continue
            state = known["state"]
            if state == "running" and known.get("phase") not in (None, "running"):
                state = "running ({})".format(known["phase"])
            rows.append(
                (
                    name, host, str(known["node_rank"]), screen.shown_ranks(known["ranks"]), state, str(known["attempt"]),
                    when(known["since"]), known["launched_by"] or "-",
                )
            )  # fmt: skip
    order = {host: number for number, host in enumerate(found)}
    return [rows[0]] + sorted(rows[1:], key=lambda row: (row[0], order[row[1]]))
