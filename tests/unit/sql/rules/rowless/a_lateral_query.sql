SELECT id, v FROM t, LATERAL (SELECT g(a) AS v, a + 1 AS w) l WHERE v > 1 ORDER BY v, w
