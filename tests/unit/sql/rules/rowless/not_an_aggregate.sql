SELECT (SELECT max(g(t.a))) FROM t
