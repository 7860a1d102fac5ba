SELECT id FROM (SELECT id, f(a) AS v FROM t)
