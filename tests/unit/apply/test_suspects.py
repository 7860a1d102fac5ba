"""Which devices are kept off."""

from __future__ import annotations

from lancegpu_sql.apply.suspects import SuspectDevices


def test_a_device_is_kept_off_as_long_as_it_is_under_suspicion() -> None:
    devices = SuspectDevices()
    devices.failed(frozenset({"gpu-0"}))
    assert devices.avoided == {"gpu-0"}
    devices.cleared(frozenset({"gpu-0"}))
    assert devices.avoided == frozenset()


def test_a_device_that_failed_where_another_did_not_stays_kept_off() -> None:
    devices = SuspectDevices()
    devices.failed(frozenset({"gpu-0"}))
    assert devices.computed_elsewhere(frozenset({"gpu-0"})) == {"gpu-0"}
    assert devices.computed_elsewhere(frozenset({"gpu-0"})) == frozenset()
    devices.cleared(frozenset({"gpu-0"}))
    assert devices.avoided == {"gpu-0"}
