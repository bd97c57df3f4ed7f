-- A client of the chat proxy sends its whole conversation with every message: its turns are known again by ids made of
-- what was said before them, in whichever session that was.
create index turn_by_client_id on journal.turn (user_id, client_id) where client_id is not null;
