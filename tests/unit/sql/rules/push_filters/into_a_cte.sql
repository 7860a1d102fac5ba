WITH c AS (SELECT *, f(a) AS v FROM t) SELECT v FROM c JOIN u ON c.id = u.id WHERE c.id > 3 AND u.c > 10
