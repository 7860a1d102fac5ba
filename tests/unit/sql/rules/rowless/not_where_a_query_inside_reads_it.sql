SELECT t.id, (SELECT l.v + max(u.c) FROM u WHERE u.id = t.id) FROM t, LATERAL (SELECT g(t.a) AS v) l
