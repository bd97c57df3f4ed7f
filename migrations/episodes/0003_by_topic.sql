-- Of each passage that is recalled it is told when its topic began. A session may be as long as a life, so that its passages
-- are not gone through for that.
create index passage_by_topic on episodes.passage (user_id, session_id, topic, occurred_at);
