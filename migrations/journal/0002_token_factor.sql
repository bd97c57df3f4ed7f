-- What estimates of tokens are multiplied by for a model, learned from the counts it reports. Nobody's memory: a row for
-- a model, whoever talks to it.
create table journal.token_factor (
    model       text primary key check (octet_length(model) between 1 and 100),
    factor      real not null check (factor between 0.5 and 2),
    seen        integer not null check (seen > 0),
    learned_at  timestamptz not null
);
