-- The sealed collection that whatever holds a secret goes to, for users who have their secrets sealed.
alter table journal.users add column secrets_collection text;

-- A purge that was begun, until there is its receipt: so that one that was broken off goes on. `user_id` is whose receipt it
-- will be, `of_user` whose memory is purged; they differ where a user is removed, whose name is in `removes` then.
create table journal.purge (
    user_id    uuid not null,
    id         uuid not null,
    of_user    uuid not null,
    removes    text,
    aim        text not null,
    actor      text not null,
    exchanges  uuid[] not null,
    begun_at   timestamptz not null,
    primary key (user_id, id)
);
