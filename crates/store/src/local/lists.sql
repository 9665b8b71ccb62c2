-- What calls are listed by, beside what is in their records.
ALTER TABLE calls ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN requester TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN parent TEXT;
ALTER TABLE calls ADD COLUMN reason TEXT;                    -- why it failed; null unless it did
ALTER TABLE calls ADD COLUMN words TEXT NOT NULL DEFAULT ''; -- what a text is looked for in, in lower case
UPDATE calls SET
    agent = coalesce(json_extract(record, '$.origin.agent'), ''),
    requester = coalesce(json_extract(record, '$.origin.requester'), ''),
    parent = json_extract(record, '$.origin.parent'),
    reason = json_extract(record, '$.ending.outcome.failed.reason'),
    words = lower(tool || char(10) || id || char(10) || coalesce(json_extract(record, '$.title'), ''));
CREATE INDEX calls_of_sessions ON calls (workspace, session, created, ended, agent);
CREATE INDEX calls_of_parents ON calls (parent) WHERE parent IS NOT NULL;

-- They were counted otherwise; whoever asks for them counts them again.
UPDATE outputs SET lines = NULL, sha256 = NULL;
