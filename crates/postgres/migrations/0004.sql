-- Workspaces that clients create at gateways: what is wanted of each, and how far it is. Whoever wants something writes it here, and a
-- gateway that has claimed the row brings it about. The row goes when the workspace is deleted; records of its calls stay.
CREATE TABLE created_workspaces (
    name          text COLLATE "C" PRIMARY KEY,
    source        text NOT NULL,                -- as JSON
    created_by    text NOT NULL,
    moment        bigint NOT NULL,              -- when it was wanted
    request       text NOT NULL,                -- the id of the request for its place; the same when that is tried again
    stage         text COLLATE "C" NOT NULL,    -- creating, ready, suspending, suspended, resuming, deleting, failed
    since         timestamptz NOT NULL DEFAULT clock_timestamp(), -- when it came to the stage
    asked_by      text NOT NULL,                -- who wanted the stage; empty if nobody did
    problem       text NOT NULL DEFAULT '',
    is_begun      boolean NOT NULL DEFAULT false, -- what is to be done at the stage has been begun
    was_ready     boolean NOT NULL DEFAULT false,
    attempts      bigint NOT NULL DEFAULT 0,    -- in vain, one after the other
    cancelled     bigint NOT NULL DEFAULT 0,    -- calls that were, by the last suspension or the deletion
    called        timestamptz NOT NULL DEFAULT clock_timestamp(), -- when something was last called there, roughly
    due           timestamptz,                  -- when something is to be done; null for never
    claimant      text COLLATE "C",             -- the run that is at it
    claimed_until timestamptz
);
CREATE INDEX created_workspaces_due ON created_workspaces (due) WHERE due IS NOT NULL;
CREATE INDEX created_workspaces_by_stage ON created_workspaces (stage, called);

-- The epoch at which its place was taken away, when it was deleted: anybody may have a workspace of that name again. Whoever does raises
-- the epoch, also a release that does not know this column.
ALTER TABLE workspaces ADD COLUMN free_at bigint;
