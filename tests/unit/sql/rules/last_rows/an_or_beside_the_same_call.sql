SELECT a = 1 OR p(id), p(id) FROM t
