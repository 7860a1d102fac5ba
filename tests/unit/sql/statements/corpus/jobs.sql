REFRESH COLUMN vec ON docs;
REFRESH COLUMN vec ON TABLE docs WHERE lang = 'en' AND id IN (SELECT 1) WITH (error_policy = 'fail', gpu_class = 'a100', gpu_count = 2, batch_size = 64, call_timeout_seconds = '30s', wait = false);
SHOW GPU CLASSES;
SHOW COLUMNS STATUS FOR docs;
SHOW JOBS;
SHOW JOBS FOR TABLE docs;
DESCRIBE JOB '0197';
SHOW ERRORS FOR JOB '0197';
SHOW EVENTS FOR JOB '0197';
CANCEL JOB '0197';
PAUSE JOB '0197';
RESUME JOB '0197' WITH (wait = false)
