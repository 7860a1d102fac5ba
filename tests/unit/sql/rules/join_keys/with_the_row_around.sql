SELECT id FROM t WHERE a = 1 AND b > (SELECT min(c) FROM u WHERE u.id = f(t.id))
