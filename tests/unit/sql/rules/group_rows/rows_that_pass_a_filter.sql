SELECT sum(f(b)) FILTER (WHERE id > 3) FROM t
