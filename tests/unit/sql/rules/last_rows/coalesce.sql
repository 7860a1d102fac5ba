SELECT coalesce(a, f(id)) FROM t
