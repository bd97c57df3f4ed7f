-- The ground state: what was said, by whom, in which order. Everything else is learned from it.

-- Whose memory is kept. The row is the lock under which a user's journal grows: whoever changes it updates `last_seq`
-- first, so that seqs are handed out in commit order and a cursor never passes one that is still to come.
create table journal.users (
    id          uuid primary key,
    name        text not null unique,
    timezone    text not null default 'UTC',
    last_seq    bigint not null default 0,
    created_at  timestamptz not null
);

-- A shelf of exchanges that are kept, recalled and pruned together. Made when first named.
create table journal.collection (
    user_id         uuid not null references journal.users on delete cascade,
    name            text not null,
    half_life_days  real check (half_life_days > 0),
    decay_floor     real check (decay_floor between 0 and 1),
    part_tokens     integer check (part_tokens between 100 and 4000),
    created_at      timestamptz not null,
    primary key (user_id, name)
);

-- One conversation; its id is the client's. It began at `created_at`; the newest turn was said at `last_at`.
create table journal.session (
    user_id         uuid not null references journal.users on delete cascade,
    id              text not null,
    collection      text not null,
    title           text,
    memory          text not null default 'readwrite' check (memory in ('off', 'read', 'write', 'readwrite')),
    max_turns       integer check (max_turns > 0),
    max_age_hours   integer check (max_age_hours > 0),
    created_at      timestamptz not null,
    last_at         timestamptz not null,
    primary key (user_id, id),
    foreign key (user_id, collection) references journal.collection
);
create index session_by_time on journal.session (user_id, last_at desc, id);
create index session_by_collection on journal.session (user_id, collection);

-- A user turn and what follows it up to the next. `changed_seq` is the seq at which it last appeared, grew or came back:
-- cursors read exchanges in that order.
create table journal.exchange (
    user_id       uuid not null references journal.users on delete cascade,
    id            uuid not null,
    session_id    text not null,
    collection    text not null,
    kind          text not null check (kind in ('said', 'asserted')),
    source        text not null,
    pinned        boolean not null default false,
    first_seq     bigint not null,
    last_seq      bigint not null,
    changed_seq   bigint not null,
    occurred_at   timestamptz not null,
    forgotten_at  timestamptz,
    primary key (user_id, id),
    foreign key (user_id, session_id) references journal.session on delete cascade,
    foreign key (user_id, collection) references journal.collection
);
create unique index exchange_by_place on journal.exchange (user_id, first_seq);
create unique index exchange_by_change on journal.exchange (user_id, changed_seq);
create index exchange_by_session on journal.exchange (user_id, session_id, first_seq);
create index exchange_by_collection on journal.exchange (user_id, collection);
create index exchange_forgotten on journal.exchange (user_id, first_seq) where forgotten_at is not null;

-- The exchanges that layers may know. What a layer derives from an exchange refers to its row here with
-- `on delete cascade`: forgetting deletes this row, and all that was learned goes with it in the same transaction.
create table journal.remembered (
    user_id      uuid not null,
    exchange_id  uuid not null,
    primary key (user_id, exchange_id),
    foreign key (user_id, exchange_id) references journal.exchange on delete cascade
);

-- One message. `text` is what is read; `parts` is the content as it came when it was not plain text.
-- `content_hash` tells a repeated write from a new one; `said_hash` is what a tombstone keeps of a turn.
create table journal.turn (
    user_id       uuid not null,
    seq           bigint not null,
    session_id    text not null,
    exchange_id   uuid not null,
    role          text not null check (role in ('user', 'assistant', 'system', 'tool')),
    speaker       text,
    text          text not null,
    parts         jsonb,
    occurred_at   timestamptz not null,
    recorded_at   timestamptz not null,
    client_id     text,
    content_hash  bytea not null,
    said_hash     bytea not null,
    primary key (user_id, seq),
    foreign key (user_id, exchange_id) references journal.exchange on delete cascade
);
create unique index turn_once on journal.turn (user_id, session_id, client_id) where client_id is not null;
create index turn_by_session on journal.turn (user_id, session_id, seq);
create index turn_by_exchange on journal.turn (user_id, exchange_id, seq);

-- How far a layer has read a user's journal. The row is also the lease on that work.
create table journal.cursor (
    user_id       uuid not null references journal.users on delete cascade,
    layer         text not null,
    seq           bigint not null default 0,
    leased_by     uuid,
    leased_until  timestamptz,
    failures      integer not null default 0,
    retry_at      timestamptz,
    primary key (user_id, layer)
);

-- Exchanges a layer could not learn from, set aside so that the rest goes on. `changed_seq` is the exchange's own when
-- it was set aside: when the layer has learned it at a later one, the row goes.
create table journal.parked (
    user_id      uuid not null,
    layer        text not null,
    exchange_id  uuid not null,
    changed_seq  bigint not null,
    reason       text not null,
    attempts     integer not null,
    parked_at    timestamptz not null,
    primary key (user_id, layer, exchange_id),
    foreign key (user_id, exchange_id) references journal.remembered on delete cascade
);

-- What remains after a purge: enough to keep an import from bringing it back, nothing of what was said.
create table journal.tombstone (
    user_id       uuid not null references journal.users on delete cascade,
    content_hash  bytea not null,
    exchange_id   uuid not null,
    purged_at     timestamptz not null,
    primary key (user_id, content_hash)
);

-- A way in. The secret is kept as its SHA-256 alone.
create table journal.key (
    id            text primary key,
    user_id       uuid not null references journal.users on delete cascade,
    name          text not null,
    secret_hash   bytea not null,
    scopes        text[] not null,
    created_at    timestamptz not null,
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz
);
create index key_by_user on journal.key (user_id);
