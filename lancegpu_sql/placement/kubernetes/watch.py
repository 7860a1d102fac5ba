"""Keeps a picture of some of a cluster's objects: one list, then one watch that goes on where the last one ended."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from lancegpu_sql.errors import ClusterForbidden, ClusterRefused, ClusterUnreachable, PlacementError
from lancegpu_sql.placement.kubernetes.api import Cluster, JsonObject, Watching

_log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_FORBIDDEN_PAUSE_SECONDS = 60.0
"""Rights may be granted while a job waits; until then nothing is gained by asking often."""

_UNKNOWN = 404
_GONE = 410

Picture = TypeVar("Picture")
Told = TypeVar("Told", contravariant=True)


class Backoff:
    """Pauses that grow with each failure in a row, no two processes alike."""

    def __init__(self) -> None:
        self._failures = 0

    def after(self, exc: PlacementError) -> float:
        """Return how many seconds to leave the server alone after this failure."""
        self._failures += 1
        asked = exc.facts.get("retry_after_seconds")
        if asked is not None:
            return float(asked)
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 10))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, keeps no secret

    def reset(self) -> None:
        """Note that a call succeeded."""
        self._failures = 0


class Audience(Protocol[Told]):
    """Who hears of changes, on the watch's own thread."""

    def changed(self, uid: str, picture: Told | None, /) -> None:
        """An object is new or has changed, or, with None, is gone."""

    def listed(self) -> None:
        """All objects there are have been told once."""

    def troubled(self, problem: PlacementError | None) -> None:
        """The server cannot be watched at present, or, with None, can again."""


class Watch(Generic[Picture]):
    """Watches objects of one kind from a thread of its own, from its start until it is stopped.

    Parameters
    ----------
    cluster, kind, labels, fields, everywhere
        What is watched; see `Cluster.watch`.
    view
        What is kept of an object.
    audience
        Who hears of changes.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        view: Callable[[JsonObject], Picture],
        audience: Audience[Picture],
        *,
        labels: str = "",
        fields: str = "",
        everywhere: bool = False,
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._view = view
        self._audience = audience
        self._selection: dict[str, Any] = {"labels": labels, "fields": fields, "everywhere": everywhere}
        self._objects: dict[str, Picture] = {}
        self._version: str | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._stream: Watching | None = None
        self.synced = False
        self.forbidden: ClusterForbidden | None = None
        self._thread = threading.Thread(target=self._run, name=f"lancegpu-watch-{kind.lower()}", daemon=True)

    def start(self) -> None:
        """Begin, once the audience is ready to hear: it may look at this watch while it is told."""
        self._thread.start()

    @property
    def objects(self) -> tuple[Picture, ...]:
        """What there is, as far as it has been heard."""
        with self._lock:
            return tuple(self._objects.values())

    def stop(self) -> None:
        """Stop watching; from any thread. Returns at once."""
        self._stopping.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def _run(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            pause = 0.0
            try:
                self._follow(backoff)
            except ClusterForbidden as exc:
                self.forbidden, self.synced, pause = exc, True, _FORBIDDEN_PAUSE_SECONDS
                self._audience.troubled(exc)
            except ClusterRefused as exc:
                self._version = None
                if exc.facts["status"] == _UNKNOWN:
                    # A cluster without this kind of objects; it may be installed while a job waits.
                    self.synced, pause = True, _FORBIDDEN_PAUSE_SECONDS
                    self._audience.listed()
                elif exc.facts["status"] != _GONE:
                    pause = backoff.after(exc)
                    self._audience.troubled(exc)
            except ClusterUnreachable as exc:
                pause = backoff.after(exc)
                self._audience.troubled(exc)
            except PlacementError as exc:
                pause = _LONGEST_PAUSE_SECONDS
                self._audience.troubled(exc)
            except Exception as exc:
                _log.exception("watching %s failed", self._kind)
                self._version, pause = None, backoff.after(PlacementError(str(exc)))
            self._stopping.wait(pause)

    def _follow(self, backoff: Backoff) -> None:
        """List if need be, then watch until the server ends it."""
        if self._version is None:
            self._list()
        assert self._version is not None
        stream = self._cluster.watch(self._kind, self._version, **self._selection)
        with self._lock:
            self._stream = stream
        if self._stopping.is_set():
            stream.close()
            return
        self.forbidden = None
        self._audience.troubled(None)
        for event in stream:
            if self._stopping.is_set():
                return
            self._take(event["type"], event["object"])
            backoff.reset()

    def _list(self) -> None:
        # Page by page, and only pictures are kept: the objects of a large cluster, all at once, are hundreds of megabytes.
        here: dict[str, Picture] = {}
        version = ""
        for page, at in self._cluster.pages(self._kind, **self._selection):
            here |= {item["metadata"]["uid"]: self._view(item) for item in page}
            version = at
        for uid in [uid for uid in self._objects if uid not in here]:
            self._note(uid, None)
        for uid, picture in here.items():
            self._note(uid, picture)
        self._version = version
        self.synced = True
        self._audience.listed()

    def _take(self, type_: str, obj: JsonObject) -> None:
        if type_ == "ERROR":
            status = int(obj.get("code") or 0)
            raise ClusterRefused(
                f"the watch of {self._kind} was ended: {obj.get('message')}", status=status, said=obj.get("message")
            )
        self._version = obj["metadata"]["resourceVersion"]
        if type_ != "BOOKMARK":
            self._note(obj["metadata"]["uid"], None if type_ == "DELETED" else self._view(obj))

    def _note(self, uid: str, picture: Picture | None) -> None:
        with self._lock:
            if picture is None:
                self._objects.pop(uid, None)
            else:
                self._objects[uid] = picture
        self._audience.changed(uid, picture)
