WITH c AS (SELECT id, f(a) AS v FROM t) SELECT x.v FROM c x JOIN c y ON x.v = y.id
