SELECT l.v, count(*) FROM t, LATERAL (SELECT g(t.a) AS v) l GROUP BY l.v ORDER BY 1
