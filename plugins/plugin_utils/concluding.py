"""The end of a launch from what every host answered: one outcome, one sentence, one table; pure."""

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import causes

from . import screen


def refusal(starts):
    """The sentence of a launch that some host refused, or None.

    Args:
        starts: ``{host: result of its start}`` in node-rank order; a refusal has ``refused``.
    """
    refused = [(host, result["refused"]) for host, result in starts.items() if result.get("refused")]
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


def result_of(job, collected):
    """The job's one result among those of its nodes.

    Args:
        job: its name.
        collected: ``{host: {"state", "result"}}`` in node-rank order; a host that cannot be asked has ``lost``.
    """
    results = [(host, answer["result"]) for host, answer in collected.items() if answer.get("result")]
    hosts = list(collected)
    leading = [result for host, result in results if host == hosts[0]]
    if leading:
        return leading[0]
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
