-- What is pinned is little, and asked for with each question.
create index exchange_pinned on journal.exchange (user_id, id) where pinned;
