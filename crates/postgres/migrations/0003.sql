-- The changes that every call makes, as functions. The server keeps the plans of their statements for each of its own connections,
-- whoever stands between it and a gateway; sent as text they were parsed and planned each time, which took three quarters of the time
-- that the database spent on a call. Gateways of several releases share them: one that changes gets the next number.
--
-- Behind a fence `_held` is the workspace, and nothing happens unless the run has it with this epoch. With notes `_last` is the number
-- of the last one, and nothing happens unless they are what comes next.

CREATE FUNCTION holds_1(_held text, _run text, _epoch bigint, _principal text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workspaces WHERE id = _held AND owner = _run AND epoch = _epoch AND principal = _principal FOR SHARE;
    RETURN FOUND;
END $$;

-- Stores facts as the notes of a run after `_before` up to `_last`.
CREATE FUNCTION keep_facts_1(
    _run text, _before bigint, _last bigint,
    _workspaces text[], _sessions text[], _names text[], _full_names text[], _values text[]
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE instances SET noted = _last WHERE id = _run AND noted = _before;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF cardinality(_names) > 0 THEN
        INSERT INTO facts (workspace, session, name, full_name, value, stored)
            SELECT fact.*, clock_timestamp() FROM unnest(_workspaces, _sessions, _names, _full_names, _values) AS fact
            ON CONFLICT (workspace, session, name) DO UPDATE SET value = excluded.value, stored = excluded.stored;
    END IF;
    RETURN true;
END $$;

-- Stores notes without a change.
CREATE FUNCTION store_notes_1(
    _held text, _run text, _epoch bigint, _principal text,
    _before bigint, _last bigint,
    _workspaces text[], _sessions text[], _names text[], _full_names text[], _values text[],
    _outputs text[], _lines bigint[],       -- outputs that are complete
    _told text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF _held IS NOT NULL AND NOT holds_1(_held, _run, _epoch, _principal) THEN
        RETURN false;
    END IF;
    IF NOT keep_facts_1(_run, _before, _last, _workspaces, _sessions, _names, _full_names, _values) THEN
        RETURN false;
    END IF;
    IF cardinality(_outputs) > 0 THEN
        UPDATE outputs SET complete = TRUE, lines = one.lines FROM unnest(_outputs, _lines) AS one (id, lines)
            WHERE outputs.id = one.id AND NOT outputs.complete;
    END IF;
    IF _told IS NOT NULL THEN
        INSERT INTO outbox (entries) VALUES (_told);
    END IF;
    RETURN true;
END $$;

-- Creates a call. `_alone` is what the notes tell if the id is taken; `_told` has that as well.
CREATE FUNCTION create_call_1(
    _held text, _run text, _epoch bigint, _principal text,
    _before bigint, _last bigint,
    _workspaces text[], _sessions text[], _names text[], _full_names text[], _values text[], _alone text,
    _id text, _full_id text, _day bigint, _owner text, _workspace text, _full_workspace text, _session text,
    _full_session text, _tool text, _state text, _created bigint, _ended bigint, _last_sequence bigint, _agent text,
    _requester text, _parent text, _reason text, _words text, _record text,
    _first bigint, _last_event bigint, _ends boolean, _batch text,
    _told text,
    OUT is_noted boolean, OUT is_created boolean
) LANGUAGE plpgsql AS $$
DECLARE
    _number bigint;
BEGIN
    is_noted := false;
    is_created := false;
    IF _held IS NOT NULL AND NOT holds_1(_held, _run, _epoch, _principal) THEN
        RETURN;
    END IF;
    IF _last IS NOT NULL THEN
        -- What is told is of this call, or was looked at: of one that has the id already it is not.
        PERFORM FROM call_days WHERE id = _id;
        IF FOUND OR NOT keep_facts_1(_run, _before, _last, _workspaces, _sessions, _names, _full_names, _values) THEN
            RETURN;
        END IF;
        is_noted := true;
    END IF;
    INSERT INTO call_days (id, full_id, day, number) VALUES (_id, _full_id, _day, nextval('call_numbers'))
        ON CONFLICT (id) DO NOTHING RETURNING number INTO _number;
    IF _number IS NULL THEN
        IF _alone IS NOT NULL THEN
            INSERT INTO outbox (entries) VALUES (_alone);
        END IF;
        RETURN;
    END IF;
    is_created := true;
    INSERT INTO calls (day, number, id, owner, workspace, full_workspace, session, full_session, tool, state, created, ended,
            last_sequence, agent, requester, parent, reason, words, record)
        VALUES (_day, _number, _id, _owner, _workspace, _full_workspace, _session, _full_session, _tool, _state, _created, _ended,
            _last_sequence, _agent, _requester, _parent, _reason, _words, _record);
    IF _batch IS NOT NULL THEN
        INSERT INTO events (day, call, first, last, ends, batch) VALUES (_day, _number, _first, _last_event, _ends, _batch);
    END IF;
    IF _told IS NOT NULL THEN
        INSERT INTO outbox (entries) VALUES (_told);
    END IF;
END $$;

-- Appends to a call. `_alone` is what the notes tell if the call does not go on like this; `_told` has that as well.
CREATE FUNCTION append_to_call_1(
    _held text, _run text, _epoch bigint, _principal text,
    _before bigint, _last bigint,
    _workspaces text[], _sessions text[], _names text[], _full_names text[], _values text[], _alone text,
    _id text, _day bigint, _owner text, _tool text, _state text, _ended bigint, _last_sequence bigint, _record text,
    _reason text, _words text, _follows bigint,
    _first bigint, _last_event bigint, _ends boolean, _batch text,
    _told text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _number bigint;
BEGIN
    IF _held IS NOT NULL AND NOT holds_1(_held, _run, _epoch, _principal) THEN
        RETURN false;
    END IF;
    SELECT number INTO _number FROM call_days WHERE id = _id;
    IF _last IS NOT NULL THEN
        -- What is told is of this call: it has to be one of the workspace.
        PERFORM FROM calls WHERE day = _day AND number = _number AND workspace = _held;
        IF NOT FOUND OR NOT keep_facts_1(_run, _before, _last, _workspaces, _sessions, _names, _full_names, _values) THEN
            RETURN false;
        END IF;
    END IF;
    UPDATE calls SET tool = _tool, state = _state, ended = _ended, last_sequence = _last_sequence, record = _record,
            reason = _reason, words = _words
        WHERE day = _day AND number = _number AND owner = _owner AND last_sequence = _follows
            AND workspace = coalesce(_held, workspace);
    IF NOT FOUND THEN
        IF _alone IS NOT NULL THEN
            INSERT INTO outbox (entries) VALUES (_alone);
        END IF;
        RETURN false;
    END IF;
    IF _batch IS NOT NULL THEN
        INSERT INTO events (day, call, first, last, ends, batch) VALUES (_day, _number, _first, _last_event, _ends, _batch);
    END IF;
    IF _told IS NOT NULL THEN
        INSERT INTO outbox (entries) VALUES (_told);
    END IF;
    RETURN true;
END $$;
