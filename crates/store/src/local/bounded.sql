-- Lists go by time, each by an index that has it. What a session's calls sum up to is kept: no list reads more than it shows.
CREATE TABLE sessions (
    workspace  TEXT NOT NULL,
    session    TEXT NOT NULL,
    number     INTEGER NOT NULL,      -- of its latest call, by the time of its admission
    agents     TEXT NOT NULL,         -- a JSON array
    first      INTEGER NOT NULL,      -- when its first call was admitted
    newest     INTEGER NOT NULL,      -- and its latest
    active     INTEGER NOT NULL,      -- when one was last admitted or ended
    calls      INTEGER NOT NULL,
    unfinished INTEGER NOT NULL,
    PRIMARY KEY (workspace, session)
) STRICT, WITHOUT ROWID;

-- By the index of the release before, which has all that is summed up.
INSERT INTO sessions (workspace, session, number, agents, first, newest, active, calls, unfinished)
SELECT workspace, session, (SELECT latest.number FROM calls AS latest INDEXED BY calls_of_sessions
        WHERE latest.workspace = calls.workspace AND latest.session = calls.session
        ORDER BY latest.created DESC, latest.number DESC LIMIT 1),
    json_group_array(DISTINCT agent), min(created), max(created), max(max(created), coalesce(max(ended), 0)),
    count(*), count(*) - count(ended)
FROM calls INDEXED BY calls_of_sessions GROUP BY workspace, session;
CREATE INDEX sessions_by_latest ON sessions (number);
CREATE INDEX sessions_by_workspace ON sessions (workspace, number);

DROP INDEX calls_by_session;
DROP INDEX calls_of_sessions;
DROP INDEX calls_finished;
CREATE INDEX calls_by_time ON calls (created);
CREATE INDEX calls_by_session ON calls (session, created);
CREATE INDEX calls_of_sessions ON calls (workspace, session, created);
CREATE INDEX calls_by_workspace ON calls (workspace, created);

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
CREATE TRIGGER calls_end AFTER UPDATE OF ended ON calls WHEN old.ended IS NULL AND new.ended IS NOT NULL
BEGIN
    UPDATE sessions SET unfinished = unfinished - 1, active = max(active, new.ended)
    WHERE workspace = new.workspace AND session = new.session;
END;
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
