"""The host's ledger of devices: one small file that all processes of a user read and write, one at a time.

The file is read and replaced whole under a lock of the kernel's (flock), which a process that dies lets go. It says what
is claimed; who lives is asked of the kernel each time. So nothing that is killed at any moment leaves a device behind,
and nothing has to time out.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from lancegpu_sql.catalog.models import Model
from lancegpu_sql.catalog.private import write_file
from lancegpu_sql.errors import StorageError
from lancegpu_sql.placement import mailbox
from lancegpu_sql.placement.leases import Claim, settle
from lancegpu_sql.placement.remains import end_remains
from lancegpu_sql.placement.runtime_folder import open_runtime_folder


class _Page(Model):
    """What the file holds; another format is another release's."""

    format: Literal[1] = 1
    claims: tuple[Claim, ...] = ()


class Ledger:
    """Claims on devices, shared by all processes that use one runtime folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "ledger.json"
        self._lock_path = folder / "ledger.lock"

    def exchange(self, mine: Iterable[Claim], gone: Collection[str] = ()) -> tuple[Claim, ...]:
        """Say what this placement claims and no longer claims; return all claims as they stand then, oldest first.

        What a claim was given stands in the ledger alone: `devices` of a claim in `mine` matter only where the ledger
        has lost it. Devices of the dead are given on in the same breath, and all who may care are woken.

        Raises
        ------
        StorageError
            If the folder cannot be used, is full, or holds what this release cannot read. Saying the same again is safe.
        """
        try:
            with self._locked():
                before = self._read()
                after = settle(_merge(before, mine, gone), self._is_alive)
                if after == before:
                    return after
                self._write(after)
            mailbox.wake(self._folder, dict.fromkeys(claim.mailbox for claim in (*before, *after)))
        except OSError as exc:
            raise StorageError(
                f"the ledger of this machine's devices, {self._path}, could not be kept: {exc.strerror or exc}",
                path=str(self._path),
            ) from exc
        return after

    @contextmanager
    def _locked(self) -> Iterator[None]:
        while True:
            try:
                descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:
                open_runtime_folder(self._folder)  # somebody cleared it away
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self._is_still_there(descriptor):
                    yield
                    return
            finally:
                os.close(descriptor)

    def _is_still_there(self, descriptor: int) -> bool:
        # A lock on a file that was removed meanwhile excludes nobody.
        try:
            return os.path.samestat(os.fstat(descriptor), self._lock_path.stat())
        except FileNotFoundError:
            return False

    def _read(self) -> tuple[Claim, ...]:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return ()
        try:
            return _Page.model_validate_json(text).claims
        except ValidationError as exc:
            raise StorageError(
                f"the ledger of this machine's devices, {self._path}, is damaged or another release's; remove it when "
                "no worker runs on this machine",
                path=str(self._path),
            ) from exc

    def _write(self, claims: tuple[Claim, ...]) -> None:
        # Not synced to disk: a crash of the machine ends every claim with it.
        draft = self._path.with_suffix(".draft")
        write_file(draft, _Page(claims=claims).model_dump_json().encode())
        draft.replace(self._path)

    def _is_alive(self, claim: Claim) -> bool:
        asker = claim.process.is_alive()
        if asker is None:
            # Its process belongs to another container that shares the folder: only its mailbox can tell.
            return mailbox.answers(self._folder, claim.mailbox)
        if asker or (claim.worker is not None and claim.worker.is_alive() is True):
            return True
        # What a killed worker had started may still use the devices.
        return not claim.waits and not end_remains(claim.mark, claim.worker)


def _merge(claims: Iterable[Claim], mine: Iterable[Claim], gone: Collection[str]) -> list[Claim]:
    merged = {claim.id: claim for claim in claims if claim.id not in gone}
    for claim in mine:
        known = merged.get(claim.id)
        merged[claim.id] = claim.model_copy(update={"devices": known.devices}) if known else claim
    return list(merged.values())
