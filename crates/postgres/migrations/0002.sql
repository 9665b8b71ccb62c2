-- What workers were bound to that came without a workspace: for good. Their folders have what was done there, so none of them ever gets
-- another workspace, and no workspace another one of them.
CREATE TABLE bindings (
    principal text COLLATE "C" NOT NULL,
    worker    text COLLATE "C" NOT NULL,    -- its name among those of the principal
    workspace text COLLATE "C" NOT NULL UNIQUE,
    bound     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (principal, worker)
);

-- Since when something waits to be told: so it is known how far audit and journal are behind.
ALTER TABLE outbox ADD COLUMN moment timestamptz NOT NULL DEFAULT clock_timestamp();
