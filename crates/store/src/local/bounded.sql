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
