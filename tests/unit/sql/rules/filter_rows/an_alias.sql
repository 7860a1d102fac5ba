SELECT f(a) AS v FROM t WHERE v > 1
