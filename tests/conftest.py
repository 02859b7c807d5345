"""What all tests share: the event loops that pure-async tests run on, and hypothesis settings for shared machines."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("tower", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tower")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it puts into the background so, and every process under it would ignore the interrupts that
    # tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    """The daemon runs on asyncio (uvicorn needs it); a test of what runs on both says so with its own fixture."""
    return "asyncio"
