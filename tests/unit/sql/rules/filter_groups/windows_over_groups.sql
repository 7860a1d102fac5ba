SELECT a, rank() OVER (ORDER BY f(sum(b))) FROM t GROUP BY a
