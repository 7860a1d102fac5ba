"""Lance's errors, told apart by their text, become ours."""

from __future__ import annotations

import itertools

import pytest

from lancegpu_sql import errors
from lancegpu_sql.tables.engine import error_for, lance_errors, pauses, plain_message, until_committed

SAID = [
    (
        ValueError("Dataset at path x/t.lance was not found: Not found: x/t.lance/_versions, /a.rs:1:2"),
        errors.TableNotFound,
    ),
    (OSError("Dataset at path t.lance/_versions/9.manifest was not found: Not found: t"), errors.VersionNotFound),
    (OSError("Retryable commit conflict for version 4: preempted by Update. Please retry."), errors.CommitConflict),
    (OSError("Incompatible transaction: Overwrite at version 4"), errors.CommitConflict),
    (OSError("Dataset already exists: c.lance"), errors.AlreadyExists),
    (OSError("Append with different schema: `id` should have type int64"), errors.InvalidData),
    (OSError("LanceError(Arrow): Divide by zero error"), errors.InvalidData),
    (ValueError("Invalid user input: Schema error: No field named nope."), errors.InvalidData),
    (OSError("Field 'nope' not found.\nAvailable fields: ['id', 'x']"), errors.InvalidData),
    (
        ValueError("External error: LanceError(IO): Generic error: Not found: x/t.lance/data/1.lance"),
        errors.VersionNotFound,
    ),
    (ValueError("External error: LanceError(IO): Permission denied (os error 13)"), errors.StorageError),
    (OSError("LanceError(IO): No space left on device (os error 28)"), errors.StorageError),
]


def test_what_belongs_to_no_table_is_told_of_the_database() -> None:
    error = error_for(OSError("LanceError(IO): No space left on device (os error 28)"), "", errors.InvalidData)
    assert str(error).startswith("The database could not be read or written: ")


@pytest.mark.parametrize(("raised", "kind"), SAID, ids=lambda one: getattr(one, "__name__", ""))
def test_each_error_of_lance_has_a_place_in_our_tree(raised: Exception, kind: type[errors.LanceGpuError]) -> None:
    error = error_for(raised, "t", errors.InvalidData)
    assert type(error) is kind
    assert "'t'" in str(error)


def test_a_bad_condition_is_what_the_operation_calls_it() -> None:
    with pytest.raises(errors.InvalidQuery), lance_errors("t", errors.InvalidQuery):
        raise OSError("Invalid user input: Error parsing statement: SELECT 1 FROM t WHERE id =")


def test_what_is_not_lances_passes_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), lance_errors("t"):
        raise ZeroDivisionError


def test_a_message_loses_the_places_in_lances_source() -> None:
    said = "Invalid user input: Schema error: No field named nope., /home/x/rust/planner.rs:1100:20, /y/z.rs:1:2"
    assert plain_message(said) == "No field named nope"


@pytest.mark.parametrize(
    "listed", ["x, _lancegpu_proof_y, _rowid", "['x', '_lancegpu_proof_y', 'z']", "['x', '_lancegpu_p']"]
)
def test_a_message_does_not_speak_of_hidden_columns(listed: str) -> None:
    assert "_lancegpu" not in plain_message(f"Invalid user input: No field named zz. Valid fields are {listed}.")


def test_pauses_grow_to_a_second_and_no_further() -> None:
    taken = list(itertools.islice(pauses(), 20))
    assert taken[0] <= 0.005
    assert all(0.5 <= pause_seconds <= 1.0 for pause_seconds in taken[8:])


def test_a_conflict_is_tried_again() -> None:
    outcomes = iter([errors.CommitConflict("first"), errors.CommitConflict("second"), None])

    def attempt() -> str:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return "committed"

    assert until_committed(attempt) == "committed"


def test_patience_with_other_writers_ends() -> None:
    def attempt() -> None:
        raise errors.CommitConflict("again")

    with pytest.raises(errors.CommitConflict):
        until_committed(attempt, patience_seconds=0.0)
