"""The exact torchrun command and environment of one node; pure."""

import os
import shlex

# What a job inherits of the environment in which its agent was started; everything else comes from `env`.
INHERITED = (
    "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "OPENBLAS_CORETYPE",
)  # fmt: skip
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def entry(spec):
    """What torchrun is told to run: ``["train.py", ...]`` or ``["-m", "pkg.train", ...]``."""
    target = ["-m", spec["module"]] if spec.get("module") else [spec["script"]]
    return target + list(spec["args"])


def options(spec, nproc, port, rdzv_id, timeout, log_dir):
    """torchrun's options as ``(name, value)``; every one is given, so that no PET_* variable can change it.

    Args:
        spec: the node's specification.
        nproc: processes on this node.
        port: this attempt's rendezvous port on the head.
        rdzv_id: this attempt's rendezvous id.
        timeout: seconds that the static rendezvous waits for the other nodes.
        log_dir: where torchrun makes its own folders; without it they stay in /tmp for ever.
    """
    return [
        ("nnodes", str(len(spec["nodes"]))),
        ("nproc-per-node", str(nproc)),
        ("node-rank", str(spec["node_rank"])),
        ("master-addr", spec["nodes"][0]["address"]),
        ("master-port", str(port)),
        ("rdzv-backend", "static"),
        ("rdzv-id", rdzv_id),
        ("rdzv-conf", "timeout={}".format(int(timeout))),
        ("local-addr", spec["nodes"][spec["node_rank"]]["address"]),
        ("max-restarts", "0"),
        ("monitor-interval", "0.1"),
        ("start-method", "spawn"),
        ("log-dir", log_dir),
    ]


def known_only(pairs, flags):
    """``pairs`` without the options that this torch does not have; ``flags`` holds its ``--names``."""
    return [(name, value) for name, value in pairs if "--" + name in flags]


def argv(pairs, wrapper, python, spec):
    """torchrun's argv: each rank is ``python -u SCRIPT ARGS`` behind the agent's own ``rank`` command."""
    head = ["--{}={}".format(name, value) for name, value in pairs]
    return head + ["--no-python"] + wrapper + [python, "-u"] + entry(spec)


def by_hand(spec, nproc, python="python"):
    """The torchrun command that does the same by hand, quoted for a shell."""
    keep = ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port")
    pairs = options(spec, nproc, spec["master_port"], spec["job"], 60, None)
    torchrun = os.path.join(os.path.dirname(python), "torchrun") if "/" in python else "torchrun"
    words = [torchrun] + ["--{}={}".format(name, value) for name, value in pairs if name in keep] + entry(spec)
    return " ".join(shlex.quote(word) for word in words)


def base_environment(inherited, python):
    """The part of the agent's environment that a job gets, with the job's Python first on PATH."""
    kept = {name: inherited[name] for name in INHERITED if name in inherited}
    kept.update({name: value for name, value in inherited.items() if name.startswith("LC_")})
    own = [os.path.dirname(python)] if os.path.isabs(python) else []
    kept["PATH"] = ":".join(own + [inherited.get("PATH", SYSTEM_PATH)])
    return kept


def environment(base, spec, run, cores, interface):
    """The environment of torchrun and its ranks.

    Args:
        base: from :func:`base_environment`.
        spec: the node's specification.
        run: ``attempt``, ``nproc``, ``share`` (nodes of the job on this machine), ``job_dir``, ``run_dir``.
        cores: cores of this host.
        interface: ``{"GLOO_SOCKET_IFNAME": name, ...}`` as chosen for this host; the user's own win.
    """
    made = dict(base)
    made.update(interface)
    made["PYTHONUNBUFFERED"] = "1"
    made["OMP_NUM_THREADS"] = str(max(1, cores // (run["nproc"] * run["share"])))
    made.update(spec["env"])
    made.update(
        {
            "MUSTER_JOB": spec["job"],
            "MUSTER_RUN": "{}/{}".format(spec["run_id"], spec["node_rank"]),
            "MUSTER_ATTEMPT": str(run["attempt"]),
            "MUSTER_JOB_DIR": run["job_dir"],
            "MUSTER_RUN_DIR": run["run_dir"],
            "MUSTER_HOST": spec["nodes"][spec["node_rank"]]["name"],
        }
    )
    return {name: value for name, value in made.items() if not name.startswith("PET_")}
