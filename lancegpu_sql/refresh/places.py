"""Where a refresh keeps its checkpoints: `checkpoints/<column>/<what values depend on>/<job>/<pass>/<part>`.

They are files of a local folder. Of a database in an object store each finished one has a copy there, by which a refresh on
another host goes on where one broke off.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lancegpu_sql.catalog.private import make_folder
from lancegpu_sql.refresh.checkpoint import Part, remove_parts
from lancegpu_sql.refresh.lock import lock_name
from lancegpu_sql.refresh.shared_folders import entries
from lancegpu_sql.refresh.target import Target
from lancegpu_sql.tables.beside import Beside

FORCED_SUFFIX = ".where"

COPIES = "checkpoints"
"""Below which the copies stand, beside the tables in the object store; their names go on as those of the files."""


_JOB_DEPTH = 4


def column_of(copy: str) -> str:
    """Return what stands for the column in the name of a copy, as `lock_name` gives it."""
    return copy.removeprefix(f"{COPIES}/").partition("/")[0]


def job_folder_of(copy: str) -> str | None:
    """Return the part of a copy's name that is the folder of one job; None for what is no copy."""
    parts = copy.split("/")
    return "/".join(parts[:_JOB_DEPTH]) if len(parts) > _JOB_DEPTH and parts[0] == COPIES else None


@dataclass(frozen=True)
class CheckpointPlaces:
    """The folders of one job's refresh of one column. Names of tables and columns never become names of files."""

    root: Path
    target: Target
    job_id: str
    forced: bool
    copies: Beside | None = None

    @property
    def column(self) -> Path:
        """What all refreshes of this column ever kept."""
        return self.root / lock_name(self.target.table, self.target.proof_column)

    @property
    def job(self) -> Path:
        """What this job keeps."""
        return self.column / self.target.key.hex() / (self.job_id + (FORCED_SUFFIX if self.forced else ""))

    @property
    def known(self) -> Path:
        """Where values may be taken over from.

        A forced refresh computes what is current too: it takes over nothing but what it computed itself before it was
        interrupted.
        """
        return self.job if self.forced else self.job.parent

    def keep(self, part: Part) -> None:
        """Put a copy of a finished part where other hosts find it.

        Raises
        ------
        StorageError
            The store refuses; the part is kept on this host.
        """
        if self.copies is not None:
            self.copies.keep(part.path, self._name(part.path))

    def fetch(self) -> None:
        """Bring the known parts of other hosts to this one; raises StorageError."""
        if self.copies is None:
            return
        for name in self.copies.names(self._name(self.known)):
            path = self.root.parent / name
            if not path.exists():
                make_folder(path.parent)
                self.copies.fetch(name, path)

    def drop(self, path: Path) -> None:
        """Remove one part, which is damaged."""
        path.unlink(missing_ok=True)
        if self.copies is not None:
            self.copies.forget([self._name(path)])

    def clear(self) -> None:
        """Forget what is published now; an interrupted forced refresh of another job keeps its own."""
        self._clear_copies()
        remove_parts(self.job)
        if self.forced:
            return
        for key in entries(self.column):
            for job in entries(key):
                if not job.name.endswith(FORCED_SUFFIX):
                    remove_parts(job)

    def _clear_copies(self) -> None:
        if self.copies is None:
            return
        mine = self._name(self.job) + "/"
        found = self.copies.names(self._name(self.job if self.forced else self.column))
        self.copies.forget(name for name in found if name.startswith(mine) or f"{FORCED_SUFFIX}/" not in name)

    def _name(self, path: Path) -> str:
        """What a file or a folder of these is called beside the tables."""
        return path.relative_to(self.root.parent).as_posix()
