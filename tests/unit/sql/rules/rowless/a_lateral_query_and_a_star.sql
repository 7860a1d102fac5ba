SELECT * FROM t LEFT JOIN LATERAL (SELECT g(a) AS v, f(b)) AS l(v, w) ON true LIMIT 3
