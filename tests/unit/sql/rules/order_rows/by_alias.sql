SELECT id, f(b) AS v FROM t ORDER BY v
