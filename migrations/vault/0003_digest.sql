-- What was made of a sealed turn when it was read the first time, encrypted: the turn itself under a key that opens it
-- quickly, and the words of its passages, so that unlocking neither agrees on a key for each turn nor stems it again.
-- Derived: a digest counts as long as `source` is the hash of the sealed turn as it is, and both have one version of the key.
create table vault.digest (
    user_id      uuid not null,
    turn_id      uuid not null,
    key_version  integer not null,
    source       bytea not null,
    ciphertext   bytea not null,
    primary key (user_id, turn_id),
    foreign key (user_id, turn_id) references journal.sealed_turn (user_id, id) on delete cascade
);
-- Encrypted bytes cannot be pressed any smaller.
alter table vault.digest alter column ciphertext set storage external;
