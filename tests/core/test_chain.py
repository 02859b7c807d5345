"""The state of a chain is derived from what its flights say."""

from __future__ import annotations

import pytest

from tower.core.chain import ChainFacts, ChainState, state_of
from tower.core.states import FlightState as F
from tower.core.states import HeldReason


@pytest.mark.parametrize(
    ("flights", "holds", "cancelled", "expected"),
    [
        ({F.QUEUED}, set(), False, ChainState.WORKING),
        ({F.RUNNING, F.HELD}, {HeldReason.RECOVERY}, False, ChainState.WORKING),
        ({F.LANDED, F.STARTING}, set(), True, ChainState.WORKING),
        ({F.HELD, F.LANDED}, {HeldReason.ENVIRONMENT}, False, ChainState.HELD),
        ({F.HELD}, {HeldReason.RECOVERY}, False, ChainState.WAITING),
        ({F.HELD}, {HeldReason.APPROVAL, HeldReason.FUEL}, False, ChainState.WAITING),
        ({F.PARKED, F.LANDED}, set(), False, ChainState.STALLED),
        ({F.STRANDED, F.LANDED}, set(), False, ChainState.STALLED),
        ({F.HALTED, F.LANDED}, set(), False, ChainState.HALTED),
        ({F.DEAD, F.LANDED}, set(), False, ChainState.INTERRUPTED),
        ({F.CANCELLED}, set(), False, ChainState.CANCELLED),
        ({F.LANDED, F.CANCELLED}, set(), True, ChainState.CANCELLED),
        ({F.LANDED, F.CANCELLED}, set(), False, ChainState.FINISHED),
        ({F.LANDED}, set(), False, ChainState.FINISHED),
    ],
)
def test_state(flights: set[F], holds: set[HeldReason], cancelled: bool, expected: ChainState) -> None:
    assert state_of(ChainFacts(flights=flights, holds=holds, cancelled=cancelled)) is expected
