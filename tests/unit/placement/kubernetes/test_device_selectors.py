"""What expressions of DeviceClasses and claims say of a device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.placement.kubernetes.device_selectors import Quantity, meets

A100 = {
    "driver": "gpu.example.com",
    "attributes": {"gpu.example.com": {"model": "A100", "index": 3, "mig": False, "version": None}},
    "capacity": {"gpu.example.com": {"memory": Quantity(80 * 1024**3 * 1000)}},
}
MODEL, MEMORY = "device.attributes['gpu.example.com'].model", 'device.capacity["gpu.example.com"].memory'
OF_NO_ONE = "device.attributes['other.example.com'].model"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'gpu.example.com'", True),
        ("device.driver == 'other.example.com'", False),
        (f"{MODEL} == 'A100' && {MODEL} != \"L4\"", True),
        (f"{MODEL} in ['H100', 'H200']", False),
        (f"{MODEL}.startsWith('A') && !{MODEL}.contains('L')", True),
        (f"{MODEL}.lowerAscii() == 'a100'", True),
        ("device.attributes['gpu.example.com'].index >= 2", True),
        ("!device.attributes['gpu.example.com'].mig", True),
        (f"{MEMORY}.compareTo(quantity('40Gi')) >= 0", True),
        (f"{MEMORY}.isGreaterThan(quantity('80Gi'))", False),
        (f"{MEMORY} == quantity('80Gi')", True),
        ("'model' in device.attributes['gpu.example.com']", True),
        ("'model' in device.attributes['other.example.com'] || device.driver.endsWith('.com')", True),
        (f"{MODEL} == 'L4' ? false : true", True),
        ("device.attributes['gpu.example.com'].index == -1", False),
        (f"({MODEL} == 'L4' || {MODEL} == 'A100') && true", True),
        # A name that the device lacks is a fault, which chooses no device unless the other side decides.
        (f"{OF_NO_ONE} == 'A100'", False),
        (f"{OF_NO_ONE} == 'A100' || {MODEL} == 'A100'", True),
        ("device.attributes['gpu.example.com'].index < 'text'", False),
    ],
)
def test_what_is_understood_is_decided(expression: str, expected: bool) -> None:
    assert meets(A100, [expression]) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "device.attributes['gpu.example.com'].index + 1 == 4",
        f"{MODEL}.matches('^A.*')",
        "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.0.0'))",
        "device.allowMultipleAllocations",
        "cel.bind(a, device, a.driver == 'gpu.example.com')",
        f"{MODEL} == 'A100' && {MODEL}.matches('x')",
        "(" * 5000,
    ],
)
def test_of_what_is_not_understood_nothing_is_claimed(expression: str) -> None:
    assert meets(A100, [expression]) is None


def test_what_is_not_understood_matters_only_where_the_rest_leaves_it_open() -> None:
    assert meets(A100, [f"{MODEL}.matches('x') && device.driver == 'none'"]) is False
    assert meets(A100, [f"{MODEL}.matches('x')", "device.driver == 'none'"]) is False
    assert meets(A100, []) is True


@given(st.text(alphabet="device.attributes['a']&|!=<>(),? x1:\"\\-", max_size=40))
def test_anything_at_all_is_answered(expression: str) -> None:
    assert meets(A100, [expression]) in (True, False, None)
