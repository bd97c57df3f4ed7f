-- What a purge did and found when it looked whether all is gone: ids and counts, nothing of what was said. `body` is what
-- is signed, as it was signed. The receipt of a removed user is the server's: the nil UUID.
create table journal.receipt (
    user_id     uuid not null,
    id          uuid not null,
    made_at     timestamptz not null,
    body        json not null,
    signature   bytea not null,
    public_key  bytea not null,
    primary key (user_id, id)
);
