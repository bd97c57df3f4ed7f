-- Statements about facts: `text` is the statement in words, `parts` the statement itself.
alter table journal.exchange drop constraint exchange_kind_check;
alter table journal.exchange add constraint exchange_kind_check check (kind in ('said', 'asserted', 'stated'));
