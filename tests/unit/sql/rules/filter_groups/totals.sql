SELECT f(a), sum(b) FROM t GROUP BY ROLLUP (a)
