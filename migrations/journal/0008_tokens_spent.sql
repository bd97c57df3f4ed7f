-- What a day's questions to chat models have cost, so that a restart gives nothing of the day's tokens back and several
-- servers share one limit. Nobody's memory: a row for a section of the configuration and a day, UTC.
create table journal.tokens_spent (
    section     text not null check (octet_length(section) between 1 and 100),
    day         date not null,
    tokens      bigint not null check (tokens >= 0),
    primary key (section, day)
);
