-- Whether something was taken under the seal that stood in the clear before, and nobody has looked since whether anything of
-- it is left: set in the transaction that seals, so that a server that is stopped in between looks later.
alter table journal.sealed add column unchecked boolean not null default false;
