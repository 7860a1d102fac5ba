SELECT v FROM (SELECT f(a) AS v, id + 1 AS n FROM t) WHERE n > 3 AND v > 1
