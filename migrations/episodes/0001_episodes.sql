-- What was said, found by meaning and by words. All of it can be learned again from the journal.

-- A space of vectors. Vectors of two embedders are never compared. `background` are passages that have nothing to do with
-- what a person asks, and `spread` how far a question's cosines to them scatter: what "far" means here.
create table episodes.embedder (
    id          smallint generated always as identity primary key,
    name        text not null unique,
    dimensions  integer not null,
    spread      real not null,
    background  halfvec[] not null
);

-- A turn, or a part of a long one: what is searched. `id` is its place, seq * 4096 + part, and so the same whenever it is
-- learned again. `follows` is the passage it answers. `episode` names the passage that opens its episode, which is what
-- is recalled: an exchange, a merge of short ones, or one part of a long one (`split`).
create table episodes.passage (
    user_id      uuid not null,
    id           bigint not null,
    exchange_id  uuid not null,
    session_id   text not null,
    collection   text not null,
    source       text not null,
    role         text not null,
    speaker      text,
    text         text not null,
    occurred_at  timestamptz not null,
    follows      bigint,
    episode      bigint not null,
    split        boolean not null,
    topic        integer not null,
    tokens       integer not null,
    words        integer not null,
    word_weight  real not null,
    -- What every search by words needs of every passage, without touching its text.
    primary key (user_id, id) include (follows, words, word_weight),
    foreign key (user_id, exchange_id) references journal.remembered on delete cascade
);
create index passage_by_exchange on episodes.passage (user_id, exchange_id);
create index passage_by_session on episodes.passage (user_id, session_id, id);
create index passage_by_episode on episodes.passage (user_id, episode);

-- A passage's place in meaning. A narrow table of its own: scanning it is what a search costs.
create table episodes.vector (
    user_id      uuid not null,
    embedder_id  smallint not null references episodes.embedder,
    passage_id   bigint not null,
    embedding    halfvec not null,
    primary key (user_id, embedder_id, passage_id),
    foreign key (user_id, passage_id) references episodes.passage on delete cascade
);
alter table episodes.vector alter column embedding set storage plain;
create index vector_by_passage on episodes.vector (user_id, passage_id);

-- Which words stand in which passage, and how often. `head` counts those among its first words, which count for the
-- passage that follows it too: so nothing of a turn is ever written down under another.
create table episodes.posting (
    user_id     uuid not null,
    term        text not null,
    passage_id  bigint not null,
    count       smallint not null,
    head        smallint not null,
    primary key (user_id, term, passage_id) include (count, head),
    foreign key (user_id, passage_id) references episodes.passage on delete cascade
);
create index posting_by_passage on episodes.posting (user_id, passage_id);

-- The languages a user's passages are in: those a question is stemmed in.
create table episodes.tongue (
    user_id   uuid not null references journal.users on delete cascade,
    language  text not null,
    primary key (user_id, language)
);

-- How often, and when last, an exchange was put before an assistant: use brings it back up.
create table episodes.use (
    user_id       uuid not null,
    exchange_id   uuid not null,
    uses          integer not null,
    last_used_at  timestamptz not null,
    primary key (user_id, exchange_id),
    foreign key (user_id, exchange_id) references journal.remembered on delete cascade
);
