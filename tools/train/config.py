"""The training's one configuration file, read into typed sections."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
RATE_HZ = 24000
FRAME_SAMPLES = 1920  # 80 ms


@dataclass(frozen=True)
class DataConfig:
    folder: str  # of everything that is made here, relative to the repository
    seed: int
    utterances: int  # of callers, in training voices
    held_out_utterances: int  # of held-out voices and held-out paraphrases
    workers: int


@dataclass(frozen=True)
class AgentConfig:
    voice: str  # of flite, whose spectral envelope and timing are used
    pitch_hz: int  # a multiple of 25, so that pulses fall on the codec's grid
    stretch: float  # of durations


@dataclass(frozen=True)
class Config:
    data: DataConfig
    agent: AgentConfig

    @property
    def folder(self) -> Path:
        path = REPOSITORY / self.data.folder
        path.mkdir(parents=True, exist_ok=True)
        return path


T = TypeVar("T")


def _section(kind: type[T], table: dict[str, Any], name: str, path: Path) -> T:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise ValueError(f"{path}: [{name}] {key}: not a known key; expected {sorted(known)}")
    missing = known - set(table)
    if missing:
        raise ValueError(f"{path}: [{name}]: missing {sorted(missing)}")
    return kind(**table)


def load(path: Path) -> Config:
    with open(path, "rb") as file:
        tables = tomllib.load(file)
    kinds = {"data": DataConfig, "agent": AgentConfig}
    return Config(**{name: _section(kind, tables.get(name, {}), name, path)
                     for name, kind in kinds.items()})
