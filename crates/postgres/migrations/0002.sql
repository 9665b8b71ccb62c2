-- What workers were bound to that came without a workspace: for good. Their folders have what was done there, so none of them ever gets
-- another workspace, and no workspace another one of them. A principal that stands for one machine, such as a pod, is one worker whatever
-- it calls itself; the others are as many workers as they have names.
CREATE TABLE bindings (
    principal text COLLATE "C" NOT NULL,
    worker    text COLLATE "C" NOT NULL,    -- its name among those of the principal; empty if that is one machine
    workspace text COLLATE "C" NOT NULL UNIQUE,
    bound     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (principal, worker)
);

-- Since when something waits to be told: so it is known how far audit and journal are behind.
ALTER TABLE outbox ADD COLUMN moment timestamptz NOT NULL DEFAULT clock_timestamp();
