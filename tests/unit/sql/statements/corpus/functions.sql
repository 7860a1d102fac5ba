CREATE FUNCTION embed(text utf8 NOT NULL, lang utf8) RETURNS fixed_size_list<float32, 384> LANGUAGE python AS $$
import numpy as np

def embed(text, lang):  # "; 'quotes' stay
    return np.zeros(384, dtype="float32")
$$ WITH (gpu = true, gpu_class = 'a100', gpus = 1, batch_size = 64, deterministic = false);

CREATE OR REPLACE FUNCTION size(b binary) RETURNS int64 NOT NULL LANGUAGE python AS 'def size(b): return len(b)';
CREATE FUNCTION IF NOT EXISTS split(x utf8) RETURNS struct<label: utf8, score: float64 not null>
  LANGUAGE python AS $source$ def split(x): return {"label": x, "score": 1.0} $source$;
CREATE FUNCTION kinds FROM 'functions/file_type.py';
CREATE OR REPLACE FUNCTION kinds FROM 'functions/file_type.py:file_type' WITH (cpus = 2);
SHOW FUNCTIONS;
DESCRIBE FUNCTION embed;
DESC FUNCTION embed VERSION 2;
DROP FUNCTION embed;
DROP FUNCTION IF EXISTS "Embed" VERSION 3
