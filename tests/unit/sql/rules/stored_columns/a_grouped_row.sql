SELECT f(a), sum(f(a)) FROM docs GROUP BY a
