-- What a session keeps belongs to a workspace too. A fact from before goes to the workspace of the session's first call,
-- to the one that a subagent's session names, or to the only one that there is; nobody else is to find it.
ALTER TABLE facts RENAME TO facts_of_any_workspace;

CREATE TABLE facts (
    workspace TEXT NOT NULL,
    session   TEXT NOT NULL,
    key       TEXT NOT NULL,
    value     TEXT NOT NULL,
    PRIMARY KEY (workspace, session, key)
) STRICT, WITHOUT ROWID;

INSERT INTO facts (workspace, session, key, value)
SELECT home, session, key, value FROM (
    SELECT fact.session, fact.key, fact.value, coalesce(
        (SELECT call.workspace FROM calls AS call WHERE call.session = fact.session ORDER BY call.number LIMIT 1),
        (SELECT json_extract(subagent.value, '$') FROM facts_of_any_workspace AS subagent
         WHERE subagent.session = fact.session AND subagent.key = 'subagent'),
        (SELECT min(workspace) FROM calls HAVING count(DISTINCT workspace) = 1)
    ) AS home
    FROM facts_of_any_workspace AS fact
) WHERE home IS NOT NULL;

DROP TABLE facts_of_any_workspace;
