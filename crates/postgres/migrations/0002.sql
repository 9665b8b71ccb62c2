-- What all who have the database must agree about, as JSON: whoever starts compares. Null of a run without a database.
ALTER TABLE instances ADD COLUMN agreed text;
