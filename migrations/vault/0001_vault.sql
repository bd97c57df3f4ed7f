-- What was learned of sealed turns while they were unlocked, encrypted: the vectors of the passages of a turn, one after
-- the other, so that the next time nothing has to be embedded again. Vectors give a text away; they are sealed as it is.
create table vault.vector (
    user_id      uuid not null,
    turn_id      uuid not null,
    embedder     text not null,
    key_version  integer not null,
    ciphertext   bytea not null,
    primary key (user_id, turn_id, embedder),
    foreign key (user_id, turn_id) references journal.sealed_turn (user_id, id) on delete cascade
);
