-- Some calls are made in stages and some in place.
SELECT f(a), f(1) FROM t;
SELECT g(f(1) + a) FROM t;
SELECT f(id), (SELECT max(f(u.c)) FROM u WHERE u.id = t.id) FROM t;
SELECT f(id) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND p(u.c // 10));
SELECT f(n) FROM t, unnest(li(id)) AS items(n) WHERE id < 4;
SELECT list_transform(l, lambda x: f(x)), f(id) FROM t;
SELECT TRY(picky(b) + 1), f(id) FROM t;
SELECT id FROM (SELECT id, f(a) AS unread, g(a) AS w FROM t) WHERE w > 1;
WITH c AS (SELECT id, f(a) AS v FROM t LIMIT 5) SELECT g(v) FROM c UNION ALL SELECT v FROM c;
SELECT f(a) FROM t UNION ALL SELECT f(1);
SELECT sum(f(a)) FROM t HAVING f(1) > 0;
SELECT CASE WHEN random() < 2 THEN f(id) END, g(id) FROM t;
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT f(n) FROM r WHERE n < 5) SELECT n, g(n) FROM r;
SELECT f(a) FROM t WHERE id > (SELECT f(3)) AND p(id);
SELECT id, f(b) FROM t LIMIT f(1);
SELECT f(t.id) FROM t JOIN u ON h(t.id, u.id) = 33;
SELECT t.id, f(u.c) FROM t LEFT JOIN u ON CASE WHEN u.c > 10 THEN p(u.c // 10) ELSE true END AND t.id = u.id;
SELECT 1 AS k, sum(f(a)), nul(count(*)) FROM t GROUP BY 1;
