SELECT v FROM (SELECT v, m FROM (SELECT f(a) AS v, id AS m FROM t)) WHERE m > 3
