"""Where a refresh keeps its checkpoints: `checkpoints/<column>/<what values depend on>/<job>/<pass>/<part>`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lancegpu_sql.refresh.checkpoint import remove_parts
from lancegpu_sql.refresh.lock import lock_name
from lancegpu_sql.refresh.target import Target

FORCED_SUFFIX = ".where"


@dataclass(frozen=True)
class CheckpointPlaces:
    """The folders of one job's refresh of one column. Names of tables and columns never become names of files."""

    root: Path
    target: Target
    job_id: str
    forced: bool

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

    def clear(self) -> None:
        """Forget what is published now; an interrupted forced refresh of another job keeps its own."""
        remove_parts(self.job)
        if self.forced or not self.column.is_dir():
            return
        for key in self.column.iterdir():
            for job in key.iterdir():
                if not job.name.endswith(FORCED_SUFFIX):
                    remove_parts(job)
