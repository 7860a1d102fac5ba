"""When a schedule is due, and in what words that is said: pure arithmetic over times."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import floor
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from lancegpu_sql.catalog.schedule_models import ScheduleRule
from lancegpu_sql.errors import InvalidInput

FIRST_BACK_OFF_SECONDS = 10.0
LONGEST_BACK_OFF_SECONDS = 3600.0

_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
_SHORT = {"s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day", "w": "week"}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)?\s*([a-z]+)", re.ASCII)
_LONGEST_SECONDS = 3_660 * 86_400.0
_LEAST_SECONDS = 1.0
_FIELDS = 5
_EXAMPLES = "'every 10 minutes', 'cron */5 * * * *', 'cron 0 3 * * * Europe/Paris' or 'on change'"


def read(text: str) -> ScheduleRule:
    """Return the rule that a text says.

    Parameters
    ----------
    text
        ``every 10 minutes``, ``cron */5 * * * *``, ``cron 0 3 * * * Europe/Paris`` or ``on change``; the first two may
        end with ``jitter 30 seconds``.

    Raises
    ------
    InvalidInput
        It says none.
    """
    said, jitter = _without_jitter(text)
    words = said.split()
    kind = words[0].lower() if words else ""
    if kind == "every" and len(words) > 1:
        return every(" ".join(words[1:]), jitter)
    if kind == "cron" and len(words) > _FIELDS:
        zone = words[1 + _FIELDS :]
        if len(zone) > 1:
            raise InvalidInput(
                f"the schedule {text!r} has more than the {_FIELDS} fields of a cron expression (minute, hour, day of the "
                "month, month, day of the week) and a time zone"
            )
        return cron(" ".join(words[1 : 1 + _FIELDS]), zone[0] if zone else None, jitter)
    if [word.lower() for word in words] == ["on", "change"] and not jitter:
        return on_change()
    raise InvalidInput(f"{text!r} is no schedule; write {_EXAMPLES}")


def every(span: str, jitter: str | None = None) -> ScheduleRule:
    """Return the rule "every so long", from spans such as ``10 minutes``.

    Raises
    ------
    InvalidInput
    """
    seconds = span_seconds(span)
    return ScheduleRule(kind="interval", every_seconds=seconds, jitter_seconds=_jitter_seconds(jitter, seconds))


def cron(expression: str, time_zone: str | None = None, jitter: str | None = None) -> ScheduleRule:
    """Return the rule of a cron expression of five fields, read in a time zone (UTC if none is given).

    Raises
    ------
    InvalidInput
    """
    zone = "UTC" if time_zone is None else time_zone
    _zone(zone)
    said = " ".join(expression.split())
    if len(said.split()) != _FIELDS:
        raise InvalidInput(
            f"the cron expression {expression!r} has {len(said.split())} fields; it needs {_FIELDS}: minute, hour, day of the "
            "month, month, day of the week"
        )
    rule = ScheduleRule(kind="cron", cron=said, time_zone=zone)
    try:
        first = next(_ticks(rule, datetime(2024, 1, 1, tzinfo=UTC)), None)
    except CronSimError as exc:
        raise InvalidInput(f"the cron expression {expression!r} cannot be read: {str(exc).lower()}") from exc
    if first is None:
        raise InvalidInput(f"the cron expression {expression!r} is never due")
    return rule.model_copy(update={"jitter_seconds": _jitter_seconds(jitter, _LONGEST_SECONDS)})


def on_change() -> ScheduleRule:
    """Return the rule "when a source has a new version"."""
    return ScheduleRule(kind="on_change")


def span_seconds(text: str) -> float:
    """Return the seconds of a span such as ``10 minutes``, ``1 hour 30 minutes`` or ``day``.

    Raises
    ------
    InvalidInput
    """
    said = text.strip().lower()
    parts = _PART.findall(said)
    total = 0.0
    for number, name in parts:
        unit = _SHORT.get(name) or name.removesuffix("s")
        if unit in ("month", "year"):
            raise InvalidInput(f"{text!r}: a {unit} has no fixed length; write days or weeks, or a cron expression")
        if unit not in _UNITS:
            parts = []
            break
        total += float(number or 1) * _UNITS[unit]
    if not parts or _PART.sub("", said).strip(" ,"):
        raise InvalidInput(
            f"{text!r} is no span of time; write a number and seconds, minutes, hours, days or weeks, such as '10 minutes'"
        )
    if not _LEAST_SECONDS <= total <= _LONGEST_SECONDS:
        raise InvalidInput(f"{text!r} is out of range: a span is between 1 second and 10 years")
    return total


def told(rule: ScheduleRule) -> str:
    """Return a rule in the words that `read` takes."""
    jitter = f" jitter {span_told(rule.jitter_seconds)}" if rule.jitter_seconds else ""
    if rule.kind == "interval":
        return f"every {span_told(rule.every_seconds or 0.0)}{jitter}"
    if rule.kind == "cron":
        zone = "" if rule.time_zone == "UTC" else f" {rule.time_zone}"
        return f"cron {rule.cron}{zone}{jitter}"
    return "on change"


def span_told(seconds: float) -> str:
    """Return a span in words that `span_seconds` takes."""
    parts = []
    for unit, length in reversed(_UNITS.items()):
        count = floor(seconds / length) if unit != "second" else round(seconds, 6)
        if count:
            parts.append(f"{count:g} {unit}{'' if count == 1 else 's'}")
        seconds -= count * length
    return " ".join(parts) or "0 seconds"


def next_run(rule: ScheduleRule, subject: str, *, anchor: datetime, after: datetime) -> datetime | None:
    """Return when a schedule is due next; None where its rule knows no times.

    However many due times have passed before `after`, they are passed over: what was missed runs once.

    Parameters
    ----------
    subject
        Of the schedule: the same one has the same jitter always.
    anchor
        From where intervals count, the first being due at once.
    after
        It is due later than this.
    """
    offset = jitter_offset(rule, subject)
    if rule.kind == "interval":
        step = timedelta(seconds=rule.every_seconds or _LEAST_SECONDS)
        first = anchor + offset
        return first if after < first else first + step * ((after - first) // step + 1)
    if rule.kind == "cron":
        tick = next(_ticks(rule, after - offset), None)
        return None if tick is None else tick + offset
    return None


def first_run(rule: ScheduleRule, subject: str, now: datetime) -> datetime | None:
    """Return when a schedule that is set now is due first: an interval at once, a cron expression at its next time."""
    return next_run(
        rule, subject, anchor=now, after=now - timedelta(microseconds=1) if rule.kind == "interval" else now
    )


def jitter_offset(rule: ScheduleRule, subject: str) -> timedelta:
    """Return by how much the due times of a subject are moved: the same on every host, always."""
    if not rule.jitter_seconds:
        return timedelta(0)
    digest = hashlib.blake2b(subject.encode(), digest_size=8, person=b"lancegpu-jitter").digest()
    return timedelta(seconds=rule.jitter_seconds * int.from_bytes(digest) / 2**64)


def back_off_seconds(streak: int) -> float:
    """Return how long to wait after so many failures in a row: 10 s, doubling to an hour."""
    return min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(streak - 1, 30), LONGEST_BACK_OFF_SECONDS)


def _ticks(rule: ScheduleRule, after: datetime) -> Iterator[datetime]:
    """Yield the times of a cron expression.

    Over a change of daylight saving they are those of Debian's cron: what has a fixed hour is due once, where that hour is
    left out as soon as it is over, where it comes twice the first time; what has ``*`` for minute or hour follows the clock.
    """
    # The second time of a doubled hour is not told apart by its name alone, hence the last condition.
    for tick in CronSim(str(rule.cron), after.astimezone(_zone(rule.time_zone))):
        moment = tick.astimezone(UTC)
        if moment > after:
            yield moment


def _zone(name: str) -> ZoneInfo:
    with suppress(OSError, ValueError, LookupError):
        return ZoneInfo(name)
    raise InvalidInput(f"there is no time zone {name!r}; write one such as 'Europe/Paris' or 'UTC'")


def _jitter_seconds(text: str | None, every_seconds: float) -> float:
    if text is None:
        return 0.0
    seconds = span_seconds(text)
    if seconds > every_seconds:
        raise InvalidInput(f"the jitter {text!r} is longer than the interval itself")
    return seconds


def _without_jitter(text: str) -> tuple[str, str | None]:
    said, *jitter = re.split(r"\bjitter\b", text, maxsplit=1, flags=re.IGNORECASE)
    return said, jitter[0] if jitter else None
