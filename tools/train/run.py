#!/usr/bin/env python3
"""Makes what a voice model is trained on, stage by stage.

    tools/train/run.py STAGE... [--config train.toml] [--resume]

Stages, in order: callers, agent; all runs every one. --resume skips what is already there.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import config as configuration  # noqa: E402

STAGES = ("callers", "agent")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", choices=(*STAGES, "all"))
    parser.add_argument("--config", type=Path, default=configuration.HERE / "train.toml")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    config = configuration.load(options.config)
    stages = STAGES if "all" in options.stages else options.stages
    for stage in stages:
        importlib.import_module(stage).make(config, options.resume)
    return 0


if __name__ == "__main__":
    sys.exit(main())
