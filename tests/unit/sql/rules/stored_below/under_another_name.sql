SELECT *, f(z) AS v FROM (SELECT id, a AS z FROM docs) AS d ORDER BY id LIMIT 3
