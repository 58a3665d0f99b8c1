# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Whether what uv resolved suits the cluster: mostly a question of which build of torch."""

from __future__ import annotations

import re
from typing import Iterable, Mapping, Sequence
from urllib.parse import unquote


def cuda_packages(names: Iterable[str]) -> list[str]:
    """Those that bring NVIDIA's libraries: gigabytes that are of no use without its GPU."""
    return sorted(name for name in names if name.startswith("nvidia-") and name != "nvidia-ml-py")


def label(version: str | None) -> str:
    """The local label of a version: `cpu` for 2.13.0+cpu, "" for 2.13.0."""
    return (version or "").partition("+")[2]


def local_torch(names: Iterable[str]) -> list[str]:
    """Versions of the torch wheels among file names."""
    found = (re.match(r"torch-([^-]+)-.*\.whl$", unquote(name), re.IGNORECASE) for name in names)
    return sorted({match.group(1) for match in found if match})


def backends(requested: str, gpu: bool, local: Sequence[str], own_index: bool) -> list[str | None]:
    """Values of uv's --torch-backend to try, in order; None means that the configured places alone are asked.

    A local wheel or an index of one's own is asked first, since PyTorch's index may be out of reach. Without an NVIDIA
    GPU `auto` then ends with the CPU index, never with PyPI's CUDA wheels.

    Args:
        requested: the option torch_backend.
        gpu: whether this host has an NVIDIA GPU.
        local: versions of local torch wheels.
        own_index: whether somebody chose an index.
    """
    if requested == "none":
        return [None]
    if requested == "auto":
        first: list[str | None] = [None] if local or own_index else []
        return first + (["auto"] if gpu else ["cpu"])
    return [None, requested] if requested in [label(version) for version in local] else [requested]


def verdict(requested: str, gpu: bool, local: Sequence[str], backend: str | None, packages: Mapping[str, str]) -> str:
    """Judge packages that were resolved with one of `backends`: "ok", "next" (try the next one), "cuda" or "cpu" (refuse).

    "cuda": they bring NVIDIA's libraries to hosts without its GPU. "cpu": they bring a CPU build of torch to hosts
    with one. A backend that the user named is taken at its word, and `none` accepts everything.
    """
    torch = packages.get("torch")
    cuda = bool(cuda_packages(packages))
    if requested == "none":
        return "ok"
    if requested not in ("auto", "cpu"):
        return "ok" if backend or torch is None or label(torch) == requested else "next"
    if requested == "cpu":
        if backend is None and torch is not None and label(torch) != "cpu":
            return "next"
        return "cuda" if cuda and not gpu else "ok"
    if not gpu:
        if not cuda:
            return "ok"
        return "next" if backend is None else "cuda"
    if torch is not None and label(torch) == "cpu":
        return "next" if backend is None else "cpu"
    return "ok" if backend or torch is None or torch in local else "next"


def needed_mb(packages: Mapping[str, str], min_free_mb: int) -> int:
    """Free megabytes to ask for: `min_free_mb` with torch, four times that with CUDA, 200 at most with neither."""
    if cuda_packages(packages):
        return 4 * min_free_mb
    return min_free_mb if "torch" in packages else min(min_free_mb, 200)
