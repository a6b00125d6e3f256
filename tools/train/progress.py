"""Progress lines and worker processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import torch.multiprocessing as multiprocessing


class Progress:
    """One line that is rewritten on a terminal, a line every few seconds elsewhere."""

    def __init__(self, what: str, total: float, every_s: float = 10.0) -> None:
        self._what, self._total = what, total
        self._terminal = sys.stderr.isatty()
        self._every_s = 0.5 if self._terminal else every_s
        self._begin = self._last = time.monotonic()

    def show(self, done: float, note: str = "", force: bool = False) -> None:
        now = time.monotonic()
        if now - self._last < self._every_s and not force:
            return
        self._last = now
        share = min(1.0, done / max(self._total, 1e-9))
        bar = "#" * int(20 * share) + "." * (20 - int(20 * share))
        end = "\r" if self._terminal and not force else "\n"
        print(f"{self._what} [{bar}] {100 * share:3.0f} % {now - self._begin:5.0f} s  {note}",
              end=end, file=sys.stderr, flush=True)


def run_workers(count: int, work: Callable[..., None], *arguments: object) -> None:
    """Runs work(rank, *arguments) in processes of their own; fails if one of them fails."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(rank, *arguments)) for rank in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = [worker.exitcode for worker in workers if worker.exitcode != 0]
    if failed:
        raise RuntimeError(f"{len(failed)} of {count} workers failed, exit status {failed[0]}")


def is_fresh(path: os.PathLike[str] | str, resume: bool) -> bool:
    """Whether a stage's result is there and need not be made again."""
    return resume and os.path.exists(path)
