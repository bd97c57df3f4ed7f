-- What people's memory files said, each time they changed. The files on disk are the truth; this is their history, and
-- what a lost folder is made anew from.

-- One text of one file. Numbers grow with time, so that a text which came back stands in the history twice.
create table files.revision (
    user_id   uuid not null references journal.users on delete cascade,
    file      text not null,
    number    bigint generated always as identity,
    -- SHA-256 of the text in hex; null together with the text when the file was gone.
    revision  text,
    text      text,
    seen_at   timestamptz not null,
    origin    text not null check (origin in ('disk', 'api')),
    primary key (user_id, file, number),
    check ((revision is null) = (text is null))
);
