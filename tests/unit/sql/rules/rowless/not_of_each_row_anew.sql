SELECT t.id, l.v FROM t, LATERAL (SELECT nd(t.a) AS v) l
