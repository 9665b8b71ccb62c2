-- A long record is compressed and stands here; then `record` is empty.
ALTER TABLE calls ADD COLUMN packed BLOB;
