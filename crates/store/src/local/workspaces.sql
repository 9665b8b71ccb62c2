-- The workspaces that were opened while a service ran; those of the configuration are not here.
CREATE TABLE workspaces (
    name      TEXT PRIMARY KEY,
    directory TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    time      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
