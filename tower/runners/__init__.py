"""How agent programs are invoked and read: one file a kind. Pure: settings in, argv out; output in, a reading out."""

from tower.runners.command import effort_of
from tower.runners.invocation import Invocation
from tower.runners.patterns import recognised
from tower.runners.registry import Kind, closes_with_a_record, of

__all__ = ["Invocation", "Kind", "closes_with_a_record", "effort_of", "of", "recognised"]
