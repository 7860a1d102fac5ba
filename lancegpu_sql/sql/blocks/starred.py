"""``* REPLACE (f(x) AS x)``, written out: its columns one by one, so that the calls in it stand in columns of their own."""

from __future__ import annotations

from sqlglot import exp

from lancegpu_sql.sql.blocks.kinds import markers_in, named
from lancegpu_sql.sql.blocks.scopes import AsWritten, source_aliases
from lancegpu_sql.sql.names import fold


def write_out_stars(select: exp.Select, written: AsWritten) -> None:
    """Write out the stars of a block that replace a column by a call; those of several sources stay."""
    items = [_written_out(select, item, written) if markers_in(item) else [item] for item in select.expressions]
    if any(len(item) > 1 for item in items):
        select.set("expressions", [part for item in items for part in item])


def _written_out(select: exp.Select, item: exp.Expr, written: AsWritten) -> list[exp.Expr]:
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star) or star.args.get("rename"):
        return [item]
    sources = list(source_aliases(select))
    of = fold(item.table) if isinstance(item, exp.Column) else sources[0] if len(sources) == 1 else ""
    names = written.item_columns(select, item) if of in sources else None
    if not names or len(set(map(fold, names))) < len(names):
        return [item]
    replaced = {fold(each.alias): each.this for each in star.args.get("replace") or []}
    table = exp.to_identifier(of, quoted=True)
    return [
        named(replaced[fold(name)].copy(), name, quoted=True)
        if fold(name) in replaced
        else exp.column(name, table=table.copy(), quoted=True)
        for name in names
    ]
