"""What a Function is: how it is declared, typed, told apart from another version, shipped to a worker and called there.

Nothing here knows of tables, jobs or placements. Importing this package and its `binding` and `decorator` loads the
standard library only; what a worker imports (`loading` and below) needs pyarrow and cloudpickle besides.
"""

from lancegpu_sql.functions.binding import Binding, ColumnRef, col
from lancegpu_sql.functions.decorator import Function, function

__all__ = ["Binding", "ColumnRef", "Function", "col", "function"]
