"""Places where a test may end or stop the keeper. The tower's own are in `core.failpoint`."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal

    from tower.system.keeper.protocol import Plan
else:
    import _signal as signal


def failpoint(plan: Plan, name: str) -> None:
    """Mark a place; `kill` ends this process there as the kernel would, `stop` freezes it until SIGCONT."""
    action = plan["failpoints"].get(name)
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
