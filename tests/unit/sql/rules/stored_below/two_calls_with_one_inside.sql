SELECT f(a), g(nb2) FROM (SELECT a, nul(b) AS nb2, b FROM docs) WHERE nul(b) > 3
