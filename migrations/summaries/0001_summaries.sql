-- The running summary of each session: what left the window, in short. All of it can be made again from the journal.

-- One state of a session's summary: version `number` takes what the one before said, whose `id` is `previous`, and folds in
-- the exchanges that name it in `summaries.folded`. A number is given again after something was forgotten, an id never. `text` is the account itself, `decisions` the list that stands before it, `names` the
-- identifiers that must survive, newest first. `made_by` is the model's name, or `extractive`. The rest describes all
-- exchanges that it covers, down to the first: how many, how many tokens they had, the place of the very first turn and
-- of the first and last turn of the newest exchange, and from when until when they were said.
create table summaries.version (
    user_id      uuid not null references journal.users on delete cascade,
    session_id   text not null,
    number       integer not null check (number > 0),
    id           bigint not null generated always as identity,
    previous     bigint,
    text         text not null,
    decisions    text[] not null,
    names        text[] not null,
    made_by      text not null,
    exchanges    integer not null,
    tokens       bigint not null,
    first_seq    bigint not null,
    newest_seq   bigint not null,
    last_seq     bigint not null,
    said_from    timestamptz not null,
    said_until   timestamptz not null,
    primary key (user_id, session_id, number),
    unique (user_id, id),
    -- A version that is being written while the one it stands on goes, goes with it.
    foreign key (user_id, previous) references summaries.version (user_id, id) on delete cascade,
    check ((previous is null) = (number = 1))
);
create index version_by_previous on summaries.version (user_id, previous);
create index version_by_place on summaries.version (user_id, session_id, newest_seq);

-- Which exchange was folded into which version. `digest` tells whether it has changed since.
create table summaries.folded (
    user_id      uuid not null,
    exchange_id  uuid not null,
    session_id   text not null,
    number       integer not null,
    digest       bytea not null,
    primary key (user_id, exchange_id),
    foreign key (user_id, exchange_id) references journal.remembered on delete cascade,
    foreign key (user_id, session_id, number) references summaries.version on delete cascade
);
create index folded_by_version on summaries.folded (user_id, session_id, number);

-- Every version stands on all before it. So when an exchange is forgotten, the version that folded it and all later ones
-- go, in the same transaction; those before it never knew of it and stay.
create function summaries.drop_what_knew() returns trigger language plpgsql as $$
begin
    delete from summaries.version
    using (select user_id, session_id, min(number) as number from gone group by user_id, session_id) as first
    where version.user_id = first.user_id
      and version.session_id = first.session_id
      and version.number >= first.number;
    return null;
end
$$;
create trigger forgotten after delete on summaries.folded
    referencing old table as gone
    for each statement execute function summaries.drop_what_knew();
