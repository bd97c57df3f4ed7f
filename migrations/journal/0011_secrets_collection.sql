-- The sealed collection that whatever holds a secret goes to, for users who have their secrets sealed.
alter table journal.users add column secrets_collection text;
