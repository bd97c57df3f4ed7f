-- What was said of whom or what, and what is still to be asked of a model. Facts themselves are made of it anew: nowhere
-- do they stand as rows.

-- What an exchange says: a statement that was told as such, or that a pattern or a model found in it. `says` tells which
-- kind of statement; the columns hold its parts:
--   holds       subject, predicate, object; since `since_at`, until `until_at`; `corrects`: what was last said was wrong
--   ends        subject, predicate, perhaps object; no longer since `since_at`
--   never_held  subject, predicate, perhaps object; of the fact that began at `since_at`, or of all
--   same        the entity called `subject` is called `object` too
--   apart       what `exchanges` say of `subject` is about another, called `object`
--   kind        `subject` is of the kind `object`
-- `seq` is the turn it was said in. All claims of a user in the order of (said_at, seq, number) tell what holds.
create table facts.claim (
    user_id      uuid not null,
    exchange_id  uuid not null,
    origin       text not null check (origin in ('asserted', 'import', 'pattern', 'model')),
    number       integer not null check (number >= 0),
    says         text not null check (says in ('holds', 'ends', 'never_held', 'same', 'apart', 'kind')),
    subject      text not null,
    predicate    text,
    object       text,
    literal      boolean not null default false,
    since_at     timestamptz,
    until_at     timestamptz,
    corrects     boolean not null default false,
    exchanges    uuid[],
    confidence   real not null check (confidence > 0 and confidence <= 1),
    session_id   text not null,
    collection   text not null,
    seq          bigint not null,
    said_at      timestamptz not null,
    recorded_at  timestamptz not null,
    primary key (user_id, exchange_id, origin, number),
    foreign key (user_id, exchange_id) references journal.remembered on delete cascade,
    check ((predicate is null) = (says in ('same', 'apart', 'kind'))),
    check ((exchanges is null) = (says <> 'apart'))
);

-- What a line of a memory file says, from when it was first read until it was no longer there. A line that moves stays
-- the same; one that comes back is a new one. The columns are those above.
create table facts.line (
    user_id        uuid not null references journal.users on delete cascade,
    id             bigint not null generated always as identity,
    file           text not null,
    line           integer not null check (line > 0),
    number         integer not null check (number >= 0),
    says           text not null check (says in ('holds', 'ends', 'never_held', 'same', 'kind')),
    subject        text not null,
    predicate      text,
    object         text,
    literal        boolean not null default false,
    since_at       timestamptz,
    until_at       timestamptz,
    corrects       boolean not null default false,
    confidence     real not null check (confidence > 0 and confidence <= 1),
    first_read_at  timestamptz not null,
    withdrawn_at   timestamptz,
    primary key (user_id, id),
    check ((predicate is null) = (says in ('same', 'kind')))
);
create index line_by_file on facts.line (user_id, file) where withdrawn_at is null;

-- Exchanges that a model is to read, has read, or could not: `digest` tells whether the exchange has changed since, and
-- what is parked says why.
create table facts.reading (
    user_id      uuid not null,
    exchange_id  uuid not null,
    digest       bytea not null,
    state        text not null check (state in ('waiting', 'read', 'parked')),
    tries        integer not null default 0,
    reason       text,
    changed_at   timestamptz not null,
    primary key (user_id, exchange_id),
    foreign key (user_id, exchange_id) references journal.remembered on delete cascade
);
create index reading_waiting on facts.reading (user_id, changed_at) where state = 'waiting';
create index reading_parked on facts.reading (user_id, exchange_id) where state = 'parked';

-- Moves in the same transaction as anything above that facts are made of: what is held in memory is checked against it.
create table facts.version (
    user_id  uuid primary key references journal.users on delete cascade,
    version  bigint not null
);

-- Who is being removed altogether has no row in `journal.users` any more, and needs no version.
create function facts.move_version() returns trigger language plpgsql as $$
begin
    insert into facts.version as known (user_id, version)
    select id, 1
    from journal.users
    where id in (select user_id from changed)
    order by id
    on conflict (user_id) do update set version = known.version + 1;
    return null;
end
$$;
create trigger claim_told after insert on facts.claim
    referencing new table as changed for each statement execute function facts.move_version();
create trigger claim_changed after update on facts.claim
    referencing new table as changed for each statement execute function facts.move_version();
create trigger claim_gone after delete on facts.claim
    referencing old table as changed for each statement execute function facts.move_version();
create trigger line_told after insert on facts.line
    referencing new table as changed for each statement execute function facts.move_version();
create trigger line_changed after update on facts.line
    referencing new table as changed for each statement execute function facts.move_version();
create trigger line_gone after delete on facts.line
    referencing old table as changed for each statement execute function facts.move_version();
