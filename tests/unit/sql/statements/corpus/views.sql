-- Materialized views.

CREATE MATERIALIZED VIEW v AS SELECT id, f(x) AS y FROM t;
create materialized view if not exists "V 1" with (gpu_class = 'big', max_wait_seconds = '10 minutes') as
    with a as (from t) select count(*) as n from a group by all with no data;
CREATE MATERIALIZED VIEW v AS (SELECT 1 AS a) WITH DATA;
REFRESH MATERIALIZED VIEW v;
REFRESH MATERIALIZED VIEW main.v WITH (full = true, gpu_class = 'big', gpu_count = 2, wait = false, cascade = true);
EXPLAIN REFRESH v;
EXPLAIN REFRESH MATERIALIZED VIEW v;
SHOW MATERIALIZED VIEWS;
DESCRIBE MATERIALIZED VIEW v;
DESC MATERIALIZED VIEW "v";
DROP MATERIALIZED VIEW v;
DROP MATERIALIZED VIEW IF EXISTS v RESTRICT;
