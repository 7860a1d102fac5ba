SELECT x.v FROM u LEFT JOIN (SELECT f(a) AS v, id FROM t) x ON x.id = u.id WHERE x.id IS NULL
