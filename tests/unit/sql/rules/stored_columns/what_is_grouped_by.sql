SELECT f(a), count(*) FROM docs GROUP BY 1
