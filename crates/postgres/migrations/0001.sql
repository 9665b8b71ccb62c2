-- Texts that somebody else chose are kept as `text.rs` writes them: U+0000 and U+0001 escaped, and where they are looked for,
-- long ones cut and closed with a digest. A column `full_…` has the whole of what was cut, else nothing. "C" is the order of
-- bytes, which is the order of such texts.

CREATE TABLE instances (
    id          text COLLATE "C" PRIMARY KEY,
    lease_until timestamptz NOT NULL,
    doubted     boolean NOT NULL DEFAULT false, -- its connection broke, and its lease was not renewed since
    is_bound    boolean NOT NULL DEFAULT false, -- it has no database: it writes for the workspaces that it holds
    principal   text,                       -- whose it is, from its first workspace on; null of one that has a database
    noted       bigint NOT NULL,            -- how many of its notes are stored: none is stored twice
    forgotten   timestamptz,                -- when what it left had been looked after; null until then
    agreed      text                        -- what all who have the database must agree about, as JSON: whoever starts compares; null
                                            -- of a run without a database
);

CREATE TABLE approvers (
    instance  text COLLATE "C" PRIMARY KEY REFERENCES instances (id) ON DELETE CASCADE,
    interests text NOT NULL                 -- what those who may answer prompts listen to there, as JSON
);

-- Who may write for a workspace. Each change for one begins by locking its row FOR SHARE, so who takes it over waits for those that
-- have begun, and those that come later find another epoch. The lease is that of the owner in `instances`: one renewal is enough
-- for all workspaces of a run, and it changes no row that its writers hold. Of workspaces that were opened while a service ran
-- there is more in `opened_workspaces`: one that is closed keeps its epoch.
CREATE TABLE workspaces (
    id      text COLLATE "C" PRIMARY KEY,
    owner   text COLLATE "C",               -- a run; null of one that nobody has
    epoch   bigint NOT NULL DEFAULT 0,      -- grows by 1 with each owner, and when an owner is found dead
    principal text,                         -- whose the last owner was: nobody else's changes are taken
    address text,                           -- where the owner can be reached, for people
    is_left boolean NOT NULL DEFAULT false  -- what an owner that is gone ran here is still to be ended
);
CREATE INDEX workspaces_by_owner ON workspaces (owner) WHERE owner IS NOT NULL;
CREATE INDEX workspaces_left ON workspaces (id) WHERE is_left;

-- Above which epochs new workspaces begin: no epoch of one that was forgotten comes back.
CREATE TABLE forgotten_workspaces (
    only_row boolean PRIMARY KEY CHECK (only_row),
    epoch    bigint NOT NULL
);
INSERT INTO forgotten_workspaces VALUES (true, 0);

CREATE TABLE opened_workspaces (
    name      text COLLATE "C" PRIMARY KEY,
    full_name text COLLATE "C",
    directory text NOT NULL,
    opened_by text NOT NULL,
    moment    bigint NOT NULL
);

CREATE SEQUENCE call_numbers;

-- Where a call is. A partitioned table cannot say that an id is one call's only, on whatever day it was admitted.
CREATE TABLE call_days (
    id      text COLLATE "C" PRIMARY KEY,
    full_id text COLLATE "C",
    day     bigint NOT NULL,
    number  bigint NOT NULL
);
CREATE INDEX call_days_by_day ON call_days (day);

-- A partition is a day of admission, in days since 1970.
CREATE TABLE calls (
    day            bigint NOT NULL,
    number         bigint NOT NULL,
    id             text COLLATE "C" NOT NULL,
    owner          text COLLATE "C" NOT NULL,
    workspace      text COLLATE "C" NOT NULL,
    full_workspace text COLLATE "C",
    session        text COLLATE "C" NOT NULL,
    full_session   text COLLATE "C",
    tool           text COLLATE "C" NOT NULL,
    state          text COLLATE "C" NOT NULL,
    created        bigint NOT NULL,
    ended          bigint,                  -- null exactly while the call is unfinished
    last_sequence  bigint NOT NULL,
    agent          text COLLATE "C" NOT NULL,
    requester      text COLLATE "C" NOT NULL,
    parent         text COLLATE "C",
    reason         text COLLATE "C",        -- why it failed; null unless it did
    words          text COLLATE "C" NOT NULL, -- what a text is looked for in, in lower case
    record         text NOT NULL,
    PRIMARY KEY (number, day)
) PARTITION BY LIST (day);
CREATE INDEX calls_of_sessions ON calls (workspace, session, number);
CREATE INDEX calls_by_session ON calls (session);
CREATE INDEX calls_of_parents ON calls (parent) WHERE parent IS NOT NULL;
CREATE INDEX calls_unfinished ON calls (owner) WHERE ended IS NULL;
CREATE INDEX calls_finished ON calls (ended) WHERE ended IS NOT NULL;

CREATE TABLE events (
    day   bigint NOT NULL,                  -- of its call
    call  bigint NOT NULL,
    first bigint NOT NULL,
    last  bigint NOT NULL,
    ends  boolean NOT NULL,                 -- the batch has a null: the end, made from the record
    batch text NOT NULL,                    -- the events as a JSON array
    PRIMARY KEY (call, last, day)
) PARTITION BY LIST (day);

CREATE TABLE prompts (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        text COLLATE "C" NOT NULL UNIQUE,
    full_id   text COLLATE "C",
    call      text COLLATE "C" NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    state     text COLLATE "C" NOT NULL,
    revision  bigint NOT NULL DEFAULT 0,
    prompt    text NOT NULL,
    asker     text,                         -- null of prompts that have ended
    opened    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX prompts_by_call ON prompts (call);
CREATE INDEX prompts_open ON prompts (workspace, session) WHERE state = 'open';

CREATE TABLE grants (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      text COLLATE "C" NOT NULL UNIQUE,
    owner   text COLLATE "C" NOT NULL,      -- empty of those that outlast any run
    content text NOT NULL
);
CREATE INDEX grants_by_owner ON grants (owner);

CREATE TABLE facts (
    workspace text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    full_name text COLLATE "C",
    value     text NOT NULL,
    stored    timestamptz NOT NULL,
    PRIMARY KEY (workspace, session, name)
);
CREATE INDEX facts_by_session ON facts (session);

-- What changes have to tell until the sequencer numbers and chains it. Emptied as fast as it is filled.
CREATE TABLE outbox (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entries text NOT NULL                   -- a JSON array
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- What was in the outbox and could not be read.
CREATE TABLE outbox_aside (
    number  bigint PRIMARY KEY,             -- as it was in the outbox
    entries text NOT NULL,
    why     text NOT NULL,
    moment  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE journal (
    number bigint PRIMARY KEY,
    moment bigint NOT NULL,
    event  text NOT NULL
);
CREATE INDEX journal_by_moment ON journal USING brin (moment);

CREATE TABLE audit (
    sequence bigint PRIMARY KEY,
    moment   bigint NOT NULL,
    hash     text NOT NULL,
    record   text NOT NULL                  -- one line of canonical JSON, the hash in it
);

-- Where audit and journal end. Who holds this row is the sequencer.
CREATE TABLE ends (
    only_row boolean PRIMARY KEY CHECK (only_row),
    chain    text NOT NULL,
    sequence bigint NOT NULL,
    hash     text NOT NULL,
    key      text NOT NULL,                 -- empty without one
    seal     text NOT NULL,
    removed  bigint NOT NULL,               -- records up to this one may be deleted
    journal  bigint NOT NULL                -- the number of the last event that was ever in the journal
);

-- Against mistakes: who may write to this database can drop them, and what he does then is found by verification.
CREATE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'audit' THEN
        IF old.sequence <= (SELECT removed FROM ends) THEN
            RETURN old;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit is not changed';
END $$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();
CREATE TRIGGER ends_stay BEFORE DELETE ON ends FOR EACH ROW EXECUTE FUNCTION audit_stays();

CREATE TABLE outputs (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        text COLLATE "C" NOT NULL UNIQUE,
    instance  text COLLATE "C" NOT NULL,    -- the run that writes it
    call      text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    origin    text NOT NULL,                -- call, session and workspace as JSON
    created   bigint NOT NULL,
    written   bigint NOT NULL,              -- when it last grew
    complete  boolean NOT NULL DEFAULT false,
    cut       boolean NOT NULL DEFAULT false, -- its writer died before it was done
    bytes     bigint NOT NULL DEFAULT 0,
    lines     bigint,                       -- null until it was counted, and so is sha256
    sha256    text,
    head      bytea NOT NULL DEFAULT ''     -- its beginning; what follows is in parts
);
CREATE INDEX outputs_by_call ON outputs (call);
CREATE INDEX outputs_by_session ON outputs (session);
CREATE INDEX outputs_by_workspace ON outputs (workspace, number);
CREATE INDEX outputs_by_written ON outputs (written);

CREATE TABLE output_parts (
    output  bigint NOT NULL REFERENCES outputs (number) ON DELETE CASCADE,
    start   bigint NOT NULL,                -- the place of its first byte in the output
    content bytea NOT NULL,
    PRIMARY KEY (output, start)
);

-- What the bucket has of outputs. An object has a row from before it is put there until after it is deleted, so that none is forgotten.
CREATE TABLE objects (
    name   text COLLATE "C" PRIMARY KEY,    -- where it is in the bucket; no two objects ever have the same
    output bigint,                          -- what it is of; perhaps gone by now, and null if nobody knows
    start  bigint,                          -- the place of its first byte in the output
    bytes  bigint,
    sha256 text,
    due    timestamptz                      -- from when on it may be deleted; null while it is a part of its output
);
CREATE UNIQUE INDEX objects_of_outputs ON objects (output, start) WHERE due IS NULL;
CREATE INDEX objects_to_come ON objects (output, start) WHERE due IS NOT NULL;
CREATE INDEX objects_by_due ON objects (due) WHERE due IS NOT NULL;

CREATE FUNCTION objects_are_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE objects SET due = '-infinity' FROM gone WHERE objects.output = gone.number AND objects.due IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER objects_go_with_outputs AFTER DELETE ON outputs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION objects_are_due();

CREATE TABLE blobs (
    sha256  text COLLATE "C" PRIMARY KEY,
    content bytea NOT NULL,
    put     timestamptz NOT NULL
);

CREATE TABLE changes (
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    day           bigint NOT NULL,          -- of its call
    call          bigint NOT NULL,
    path          bytea NOT NULL,           -- paths need not be UTF-8
    shown         bytea NOT NULL,
    before_sha256 text COLLATE "C",         -- null if there was no file, and so are the two below
    before_bytes  bigint,
    before_mode   bigint,
    after_sha256  text COLLATE "C",
    after_bytes   bigint,
    after_mode    bigint                    -- null also where the system chooses it
);
CREATE INDEX changes_by_call ON changes (call);
CREATE INDEX changes_by_day ON changes (day);
CREATE INDEX changes_by_before ON changes (before_sha256);
CREATE INDEX changes_by_after ON changes (after_sha256);
