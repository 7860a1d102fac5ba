WITH d AS (FROM docs) SELECT id, f(a) FROM d WHERE f(a) > 1
