"""What every shape is: a closed one."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Time = str


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")
