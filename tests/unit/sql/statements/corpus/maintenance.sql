OPTIMIZE TABLE t;
OPTIMIZE TABLE main.t WITH (cleanup_older_than = '7 days', delete_unverified = false, wait = false);
OPTIMIZE t WITH (cleanup_older_than = NULL);
OPTIMIZE MATERIALIZED VIEW v;
EXPLAIN OPTIMIZE TABLE "t" WITH (cleanup_older_than_seconds = 0);
EXPLAIN OPTIMIZE t;
