from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lancegpu_sql as lg

GUESTS_OF_PYARROW = {"numpy", "cloudpickle"}  # it loads them where they are installed
LIGHT = "import lancegpu_sql as lg; from lancegpu_sql import col, errors, function; col('a')"
WORKER = "import lancegpu_sql.functions.loading"
DEFINE = """
import lancegpu_sql as lg
@lg.function(name="double")
def double(x: int) -> int: return 2 * x
double(x=lg.col("x"))
"""


def loaded_by(program: str) -> set[str]:
    """Run a program in a fresh interpreter and name the packages it imports beyond Python's own."""
    told = (
        "import sys; before = set(sys.modules)\n"
        f"{program}\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(top for top in tops if top not in sys.stdlib_module_names))"
    )
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {name for name in ran.stdout.split() if not name.startswith("_")} - {"lancegpu_sql", "cython_runtime"}


def test_the_root_function_and_col_import_the_standard_library_only() -> None:
    assert loaded_by(LIGHT) == set()


def test_what_a_worker_loads_functions_with_needs_pyarrow_and_cloudpickle() -> None:
    assert {"pyarrow", "cloudpickle"} <= loaded_by(WORKER) <= {"pyarrow", *GUESTS_OF_PYARROW}


def test_declaring_and_binding_a_function_needs_pyarrow_only() -> None:
    assert loaded_by(DEFINE) <= {"pyarrow", *GUESTS_OF_PYARROW}


# Each takes a tenth of a second or more, in which a worker that a query needs could be starting: pyarrow's datasets bring pandas.
NOT_BEFORE_A_QUERY = {"lance", "pandas", "pyarrow.dataset", "duckdb", "rich", "kubernetes", "yaml"}
OPEN = """
import sys
import lancegpu_sql as lg
with lg.connect(sys.argv[1]) as db:
    db.list_jobs()
    print(*sys.modules)
"""


def test_opening_a_database_loads_neither_lance_nor_an_engine(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", OPEN, str(tmp_path)], capture_output=True, text=True, check=True)
    assert NOT_BEFORE_A_QUERY & set(ran.stdout.split()) == set()


COLLECTIONS = """
import gc
def made(): return [each["collections"] for each in gc.get_stats()][1:]
import lancegpu_sql as lg
before = made()
lg.connect
assert gc.isenabled()
assert made() == before
"""


def test_the_collector_of_cycles_rests_while_much_is_imported() -> None:
    subprocess.run([sys.executable, "-c", COLLECTIONS], check=True)


FROZEN = """
import gc
import lancegpu_sql as lg
gc.freeze()
gc.disable()
frozen = gc.get_freeze_count()
lg.connect
assert not gc.isenabled()
gc.enable()
lg.attach
assert gc.get_freeze_count() >= frozen - 100  # what is let go of meanwhile
"""


def test_a_collector_that_its_user_set_otherwise_stays_so() -> None:
    subprocess.run([sys.executable, "-c", FROZEN], check=True)


def test_public_names_are_sorted_and_there() -> None:
    assert lg.__all__ == sorted(lg.__all__)
    assert set(lg.__all__) <= set(dir(lg))
    assert all(hasattr(lg, name) for name in lg.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(lg, "conect")


PLAIN_NUMBERS = """
import sys
import pyarrow as pa
from lancegpu_sql.functions.faults import WrongResultError
from lancegpu_sql.functions.results import array_of

assert array_of([1, -(2**63), 2**63 - 1], pa.field("r", pa.int64())).to_pylist() == [1, -(2**63), 2**63 - 1]
assert str(array_of([0.5, float("nan"), -0.0], pa.field("r", pa.float64())).to_pylist()) == "[0.5, nan, -0.0]"
assert "pandas" not in sys.modules
try:
    array_of([1, 2**63], pa.field("r", pa.int64()))
except WrongResultError as refused:
    assert refused.row_index == 1
else:
    raise AssertionError
"""


def test_plain_numbers_are_read_without_pandas():
    subprocess.run([sys.executable, "-c", PLAIN_NUMBERS], check=True)
