-- What a reply means for other prompts is worked out without the calls that wait. `asker` is what that takes; null of prompts
-- that have ended, and of those from before. `revision` counts the changes of a prompt, for other processes to see them.
ALTER TABLE prompts ADD COLUMN asker TEXT;
ALTER TABLE prompts ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX prompts_open_revisions ON prompts (state, id, revision) WHERE state = 'open';
