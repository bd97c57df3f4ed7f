-- What is done about secrets in what a user tells; null means as the server's configuration has it.
alter table journal.users add column secrets text check (secrets in ('allow', 'redact', 'seal'));

-- What was changed in a user's memory: who, what and when, never a word of what was said. Rows are chained: `hash` is
-- SHA-256 over the hash before and this row, so that a row that was altered, taken out or put in between is noticed.
-- No reference to users: that a user was removed is written down too. The server's own chain has the nil UUID.
create table journal.audit (
    user_id   uuid not null,
    number    bigint not null check (number > 0),
    at        timestamptz not null,
    -- The id of the key that did it, `command` for a command on the server's machine, `server` for what it does by itself.
    actor     text not null,
    verb      text not null,
    -- Ids, names of settings and counts, as it was hashed: `json` keeps the text as it came.
    what      json not null,
    hash      bytea not null,
    primary key (user_id, number)
);

-- The end of each chain: a chain that lost its end is noticed too.
create table journal.audit_head (
    user_id   uuid primary key,
    number    bigint not null,
    hash      bytea not null
);

-- The log is only ever added to. With its user it goes: the transaction that removes a user says so.
create function journal.audit_stays() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and old.user_id::text = current_setting('skymem.removing_user', true) then
        return old;
    end if;
    raise exception 'the audit log is only added to' using errcode = 'insufficient_privilege';
end
$$;
create trigger audit_stays before update or delete on journal.audit
    for each row execute function journal.audit_stays();
create trigger audit_is_not_emptied before truncate on journal.audit
    for each statement execute function journal.audit_stays();
