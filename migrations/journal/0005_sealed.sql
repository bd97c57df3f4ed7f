-- Sealed collections: what is said in them is encrypted before it comes here, and nothing of it stands in the clear. What
-- stays clear is what order and forgetting need: random ids, seqs, the hour in which something was written, lengths in
-- steps. There is no hash of anything that was said.

-- The tables' own references keep what is open out of sealed collections: nobody can forget to look at a flag.
alter table journal.collection add column sealed boolean not null default false;
alter table journal.collection add constraint collection_by_seal unique (user_id, name, sealed);
alter table journal.session
    add column sealed boolean not null default false constraint session_is_open check (not sealed),
    drop constraint session_user_id_collection_fkey,
    add constraint session_collection_is_open
        foreign key (user_id, collection, sealed) references journal.collection (user_id, name, sealed);
alter table journal.exchange
    add column sealed boolean not null default false constraint exchange_is_open check (not sealed),
    drop constraint exchange_user_id_collection_fkey,
    add constraint exchange_collection_is_open
        foreign key (user_id, collection, sealed) references journal.collection (user_id, name, sealed);

-- A sealed collection. `key_version` is that of the key that is written with; `changed_seq` the seq at which something in it
-- last changed; `handle_key` makes handles of session ids, so that what is said next joins what was said before although
-- nobody can read it. Whoever has this table can test whether a session id that they guess was used: nothing more.
create table journal.sealed (
    user_id      uuid not null references journal.users on delete cascade,
    collection   text not null,
    key_version  integer not null check (key_version > 0),
    handle_key   bytea not null check (octet_length(handle_key) = 32),
    changed_seq  bigint not null default 0,
    sealed_at    timestamptz not null,
    primary key (user_id, collection),
    foreign key (user_id, collection) references journal.collection
);

-- The half of each version of a collection's key that writes.
create table journal.sealed_key (
    user_id     uuid not null,
    collection  text not null,
    version     integer not null check (version > 0),
    public_key  bytea not null check (octet_length(public_key) = 32),
    made_at     timestamptz not null,
    primary key (user_id, collection, version),
    foreign key (user_id, collection) references journal.sealed on delete cascade
);

-- The half that reads, wrapped by age: once for each recipient, and once for a passphrase.
create table journal.sealed_wrapping (
    user_id     uuid not null,
    collection  text not null,
    version     integer not null,
    recipient   text not null check (recipient = 'passphrase' or starts_with(recipient, 'age1')),
    wrapped     bytea not null,
    added_at    timestamptz not null,
    primary key (user_id, collection, version, recipient),
    foreign key (user_id, collection, version) references journal.sealed_key on delete cascade
);

-- A session of a sealed collection, by its handle; and its last exchange as far as it may still grow.
create table journal.sealed_session (
    user_id        uuid not null,
    collection     text not null,
    handle         bytea not null,
    open_exchange  uuid not null,
    open_turns     integer not null check (open_turns >= 0),
    open_voices    text not null check (open_voices in ('nobody', 'one_user', 'more')),
    primary key (user_id, collection, handle),
    foreign key (user_id, collection) references journal.sealed on delete cascade
);

create table journal.sealed_exchange (
    user_id        uuid not null,
    id             uuid not null,
    collection     text not null,
    handle         bytea not null,
    changed_seq    bigint not null,
    recorded_hour  timestamptz not null,
    forgotten_at   timestamptz,
    primary key (user_id, id),
    foreign key (user_id, collection) references journal.sealed on delete cascade
);
create index sealed_exchange_by_change on journal.sealed_exchange (user_id, collection, changed_seq);
create index sealed_exchange_by_session on journal.sealed_exchange (user_id, collection, handle);

-- One message: all of it is in the ciphertext, which belongs to this row alone.
create table journal.sealed_turn (
    user_id      uuid not null,
    seq          bigint not null,
    id           uuid not null,
    exchange_id  uuid not null,
    key_version  integer not null,
    ciphertext   bytea not null,
    primary key (user_id, seq),
    unique (user_id, id),
    foreign key (user_id, exchange_id) references journal.sealed_exchange on delete cascade
);
create index sealed_turn_by_exchange on journal.sealed_turn (user_id, exchange_id, seq);
