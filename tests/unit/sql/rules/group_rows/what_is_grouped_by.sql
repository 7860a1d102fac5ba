SELECT f(a), count(*) FROM t GROUP BY f(a)
