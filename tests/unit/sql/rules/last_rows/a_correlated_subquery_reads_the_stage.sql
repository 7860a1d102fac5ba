SELECT f(a), (SELECT max(c) FROM u WHERE u.id = t.id) FROM t
