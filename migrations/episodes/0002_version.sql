-- Counts the changes of a user's passages and vectors, so that what is held of them in memory is known to be current.
create table episodes.version (
    user_id     uuid primary key references journal.users on delete cascade,
    version     bigint not null,
    changed_by  xid8 not null
);

-- Counts a transaction once. At its end, when it waits for no other lock, so that two that change the same user's
-- passages never wait for each other.
create function episodes.note_change() returns trigger language plpgsql as $$
begin
    insert into episodes.version (user_id, version, changed_by)
    select id, 1, pg_current_xact_id() from journal.users where id = coalesce(new.user_id, old.user_id)
    on conflict (user_id) do update
        set version = version.version + 1, changed_by = excluded.changed_by
        where version.changed_by <> excluded.changed_by;
    return null;
end
$$;
create constraint trigger passage_changed after insert or update or delete on episodes.passage
    deferrable initially deferred for each row execute function episodes.note_change();
create constraint trigger vector_changed after insert or update or delete on episodes.vector
    deferrable initially deferred for each row execute function episodes.note_change();
