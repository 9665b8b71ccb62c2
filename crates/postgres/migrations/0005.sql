-- Appends to an output that ends at `_from`, as a function for the reasons of the others: every line that a command prints may be one.
-- Nothing happens if it does not end there, or has ended, or is not of the run and the workspace that are named.
--
-- What has no room in the head is in pieces. A single one is put behind the last piece that is there, if that begins at `_joins` or later.
CREATE FUNCTION append_to_output_1(
    _held text, _run text, _epoch bigint, _principal text,
    _id text, _from bigint, _to bigint, _head bytea, _starts bigint[], _pieces bytea[], _joins bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _number bigint;
BEGIN
    IF _held IS NOT NULL AND NOT holds_1(_held, _run, _epoch, _principal) THEN
        RETURN false;
    END IF;
    UPDATE outputs SET bytes = _to, written = extract(epoch FROM clock_timestamp()) * 1000,
            head = CASE WHEN octet_length(_head) = 0 THEN head ELSE head || _head END
        WHERE id = _id AND bytes = _from AND NOT complete
            AND workspace = coalesce(_held, workspace) AND instance = coalesce(_run, instance)
        RETURNING number INTO _number;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF _joins < _starts[1] THEN
        UPDATE output_parts SET content = content || _pieces[1]
            WHERE output = _number AND start >= _joins AND start + octet_length(content) = _starts[1];
        IF FOUND THEN
            RETURN true;
        END IF;
    END IF;
    IF cardinality(_starts) > 0 THEN
        INSERT INTO output_parts (output, start, content) SELECT _number, one.* FROM unnest(_starts, _pieces) AS one;
    END IF;
    RETURN true;
END $$;
