"""How agent programs are invoked and read: one file a kind. Pure: settings in, argv out; output in, a reading out."""

from tower.runners.command import effort_of
from tower.runners.invocation import Invocation
from tower.runners.patterns import recognised
from tower.runners.registry import Kind, of

__all__ = ["Invocation", "Kind", "effort_of", "of", "recognised"]
