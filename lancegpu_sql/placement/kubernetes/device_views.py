"""What the thinking reads of Dynamic Resource Allocation (resource.k8s.io/v1): claims, published devices, device classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lancegpu_sql.placement.kubernetes.device_selectors import Facts, Quantity, meets
from lancegpu_sql.placement.kubernetes.fields import entries, mapping, number, text
from lancegpu_sql.placement.kubernetes.quantities import parse_quantity
from lancegpu_sql.placement.kubernetes.views import Taint

# A device class nearly always names its driver in this form; one that does not may take any driver's devices.
_DRIVER = re.compile(r"device\.driver\s*==\s*['\"]([^'\"]+)['\"]")

DeviceKey = tuple[str, str, str]
"""Driver, pool and name: unique in a cluster."""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One request of a claim, or one of the alternatives of a request. `count` is None where all devices are asked for."""

    name: str
    device_class: str
    count: int | None
    selectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimView:
    """One resource claim: what it asks for, which devices it was given, and for whom (names of pods)."""

    name: str
    namespace: str
    requests: tuple[ClaimRequest, ...]
    allocated: bool = False
    devices: tuple[DeviceKey, ...] = ()
    reserved_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """One device that a driver publishes. `node` is empty where it is not tied to one node by name.

    `facts` are what selectors read of it.
    """

    driver: str
    pool: str
    name: str
    node: str
    taints: tuple[Taint, ...] = ()
    facts: Facts = field(default_factory=dict)

    @property
    def key(self) -> DeviceKey:
        """What tells it from all others."""
        return self.driver, self.pool, self.name


@dataclass(frozen=True, slots=True)
class DeviceClassView:
    """One DeviceClass. `driver` is None where its selectors do not name one plainly."""

    name: str
    extended_resource: str = ""
    driver: str | None = None
    selectors: tuple[str, ...] = ()


def is_of(device: PublishedDevice, device_class: DeviceClassView) -> bool:
    """Tell whether a device is one of a class; where its selectors are not understood, by the driver they name."""
    met = meets(device.facts, device_class.selectors)
    return device_class.driver in (None, device.driver) if met is None else met


def claim_view(obj: object) -> ClaimView:
    """Read a ResourceClaim."""
    metadata, status = mapping(obj, "metadata"), mapping(obj, "status")
    requests: list[ClaimRequest] = []
    for one in entries(mapping(obj, "spec", "devices").get("requests")):
        name = text(one.get("name"))
        alternatives = entries(one.get("firstAvailable"))
        requests.extend(_request(name, choice) for choice in alternatives or [mapping(one, "exactly") or one])
    given = entries(mapping(status, "allocation", "devices").get("results"))
    return ClaimView(
        name=text(metadata.get("name")),
        namespace=text(metadata.get("namespace")),
        requests=tuple(requests),
        allocated=bool(mapping(status, "allocation")),
        devices=tuple((text(one.get("driver")), text(one.get("pool")), text(one.get("device"))) for one in given),
        reserved_for=tuple(
            text(one.get("name")) for one in entries(status.get("reservedFor")) if one.get("resource") == "pods"
        ),
    )


def published_devices(obj: object) -> tuple[PublishedDevice, ...]:
    """Read the devices of a ResourceSlice."""
    spec = mapping(obj, "spec")
    driver = text(spec.get("driver"))
    return tuple(
        PublishedDevice(
            driver=driver,
            pool=text(mapping(spec, "pool").get("name")),
            name=text(one.get("name")),
            node=text(one.get("nodeName")) or text(spec.get("nodeName")),
            taints=tuple(
                Taint(text(taint.get("key")), text(taint.get("value")), text(taint.get("effect")))
                for taint in entries(one.get("taints"))
                if taint.get("effect") in ("NoSchedule", "NoExecute")
            ),
            facts=_facts(driver, one),
        )
        for one in entries(spec.get("devices"))
    )


def device_class_view(obj: object) -> DeviceClassView:
    """Read a DeviceClass."""
    spec = mapping(obj, "spec")
    selectors = tuple(filter(None, map(_expression, entries(spec.get("selectors")))))
    drivers = {found for selector in selectors for found in _DRIVER.findall(selector)}
    return DeviceClassView(
        name=text(mapping(obj, "metadata").get("name")),
        extended_resource=text(spec.get("extendedResourceName")),
        driver=drivers.pop() if len(drivers) == 1 else None,
        selectors=selectors,
    )


def _request(name: str, one: Mapping[str, Any]) -> ClaimRequest:
    return ClaimRequest(
        name=name,
        device_class=text(one.get("deviceClassName")),
        count=None if one.get("allocationMode") == "All" else number(one.get("count")) or 1,
        selectors=tuple(filter(None, map(_expression, entries(one.get("selectors"))))),
    )


def _expression(selector: Mapping[str, Any]) -> str:
    return text(mapping(selector, "cel").get("expression"))


def _facts(driver: str, device: Mapping[str, Any]) -> Facts:
    """Return what selectors read of a device; a name without a domain is in that of the driver."""
    found: dict[str, Any] = {"driver": driver, "attributes": {}, "capacity": {}}
    for part, read in (("attributes", _attribute), ("capacity", _capacity)):
        for name, one in mapping(device, part).items():
            domain, _, rest = str(name).rpartition("/")
            found[part].setdefault(domain or driver, {})[rest] = read(mapping(one))
    return found


def _attribute(one: Mapping[str, Any]) -> Any:
    """Return an attribute's value; None for one that is not understood, such as a version."""
    return next((one[kind] for kind in ("string", "int", "bool") if kind in one), None)


def _capacity(one: Mapping[str, Any]) -> Quantity | None:
    amount = parse_quantity(one.get("value"))
    return None if amount is None else Quantity(amount)
