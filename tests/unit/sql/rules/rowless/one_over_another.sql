SELECT t.id, l.v, m.w FROM t, LATERAL (SELECT g(t.a) AS v) l, LATERAL (SELECT f(l.v) AS w) m
