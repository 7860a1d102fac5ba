INSERT INTO docs VALUES (1, 'a;b'), (2, $$c;d$$), (3, E'it\'s');
INSERT INTO docs (id, "text") SELECT id, lower(text) FROM other WHERE id > ?;
INSERT INTO docs BY NAME SELECT 1 AS id;
INSERT INTO docs DEFAULT VALUES;
WITH fresh AS (SELECT 9 AS id) INSERT INTO docs BY POSITION FROM fresh;
UPDATE docs SET text = upper(text), price = CASE WHEN id > 3 THEN 1 ELSE DEFAULT_PRICE END, id = DEFAULT WHERE id IS DISTINCT FROM 3;
UPDATE docs AS d SET (id, text) = (o.id, o.text) FROM other o WHERE o.key = d.key;
DELETE FROM docs;
DELETE FROM docs d USING other AS o, third WHERE d.id = o.id AND toxic(d.text) > 0.5;
TRUNCATE docs;
TRUNCATE TABLE docs;
WITH fresh(id, text) AS MATERIALIZED (SELECT 9, 'x')
MERGE INTO docs AS d USING fresh AS f ON d.id = f.id
  WHEN MATCHED AND f.text IS NULL THEN DELETE
  WHEN MATCHED THEN UPDATE SET text = f.text, price = CASE WHEN f.id = 1 THEN 2 END
  WHEN NOT MATCHED AND f.id < 0 THEN DO NOTHING
  WHEN NOT MATCHED BY TARGET THEN INSERT (id, text) VALUES (f.id, DEFAULT)
  WHEN NOT MATCHED BY SOURCE AND d.id = 7 THEN ERROR 'gone';
MERGE INTO docs USING (SELECT * FROM other) o USING (id) WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
MERGE INTO docs USING read_parquet('x.parquet') USING (id) WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT VALUES (1, 'x');
COPY docs FROM 'docs.parquet';
COPY docs (id, "text") FROM 'x;y.csv' (HEADER, DELIMITER '|');
