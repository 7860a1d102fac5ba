WITH c AS (SELECT id, f(a) AS v FROM t) SELECT g(v) FROM c WHERE id > 3
