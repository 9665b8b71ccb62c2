-- What keeps the table `sessions` as the calls are. Databases of development versions of the migration before have other triggers, and not
-- all of its indexes.
CREATE INDEX IF NOT EXISTS sessions_by_workspace ON sessions (workspace, number);
CREATE INDEX IF NOT EXISTS calls_of_sessions ON calls (workspace, session, created);

DROP TRIGGER IF EXISTS calls_begin;
CREATE TRIGGER calls_begin AFTER INSERT ON calls
BEGIN
    INSERT INTO sessions (workspace, session, number, agents, first, newest, active, calls, unfinished)
    VALUES (new.workspace, new.session, new.number, json_array(new.agent), new.created, new.created,
        max(new.created, coalesce(new.ended, 0)), 1, new.ended IS NULL)
    ON CONFLICT (workspace, session) DO UPDATE SET
        number = CASE WHEN excluded.newest < newest THEN number ELSE excluded.number END,
        agents = CASE WHEN EXISTS (SELECT 1 FROM json_each(agents) WHERE value = new.agent) THEN agents
            ELSE json_insert(agents, '$[#]', new.agent) END,
        first = min(first, excluded.first),
        newest = max(newest, excluded.newest),
        active = max(active, excluded.active),
        calls = calls + 1,
        unfinished = unfinished + excluded.unfinished;
END;
DROP TRIGGER IF EXISTS calls_end;
CREATE TRIGGER calls_end AFTER UPDATE OF ended ON calls WHEN old.ended IS NULL AND new.ended IS NOT NULL
BEGIN
    UPDATE sessions SET unfinished = unfinished - 1, active = max(active, new.ended)
    WHERE workspace = new.workspace AND session = new.session;
END;
DROP TRIGGER IF EXISTS calls_go;
-- The first and the latest call may be those that go. Of agents and of activity is kept what was: it goes with the session.
CREATE TRIGGER calls_go AFTER DELETE ON calls
BEGIN
    DELETE FROM sessions WHERE workspace = old.workspace AND session = old.session AND calls = 1;
    UPDATE sessions SET
        calls = calls - 1,
        unfinished = unfinished - (old.ended IS NULL),
        first = CASE first WHEN old.created THEN (SELECT created FROM calls INDEXED BY calls_of_sessions
            WHERE workspace = old.workspace AND session = old.session ORDER BY created LIMIT 1) ELSE first END,
        newest = CASE newest WHEN old.created THEN (SELECT created FROM calls INDEXED BY calls_of_sessions
            WHERE workspace = old.workspace AND session = old.session ORDER BY created DESC LIMIT 1) ELSE newest END,
        number = CASE number WHEN old.number THEN (SELECT number FROM calls INDEXED BY calls_of_sessions
            WHERE workspace = old.workspace AND session = old.session ORDER BY created DESC, number DESC LIMIT 1) ELSE number END
    WHERE workspace = old.workspace AND session = old.session;
END;
