//! Every statement of this layer.

use skymem_core::{Collection, UserId};
use sqlx::PgPool;
use uuid::Uuid;

/// A key of a collection, wrapped.
pub(crate) struct Wrapping {
    pub(crate) version: i32,
    pub(crate) recipient: String,
    pub(crate) wrapped: Vec<u8>,
}

/// The keys of a collection as they are wrapped to each recipient.
pub(crate) async fn wrappings(db: &PgPool, user: UserId, collection: &Collection) -> sqlx::Result<Vec<Wrapping>> {
    sqlx::query_as!(
        Wrapping,
        r#"
        select version, recipient, wrapped
        from journal.sealed_wrapping
        where user_id = $1
          and collection = $2
        order by version, recipient
        "#,
        user.0,
        collection.as_str()
    )
    .fetch_all(db)
    .await
}

/// The sealed collections of a user, with the seq at which each last changed.
pub(crate) async fn sealed(db: &PgPool, user: UserId) -> sqlx::Result<Vec<(String, i64)>> {
    sqlx::query!("select collection, changed_seq from journal.sealed where user_id = $1 order by collection", user.0)
        .map(|row| (row.collection, row.changed_seq))
        .fetch_all(db)
        .await
}

/// A sealed turn: its digest, or where that is not there or is of another text, what was written first; and its vectors if
/// they were learned with that embedder.
pub(crate) struct Row {
    pub(crate) seq: i64,
    pub(crate) id: Uuid,
    pub(crate) exchange_id: Uuid,
    pub(crate) key_version: i32,
    pub(crate) ciphertext: Option<Vec<u8>>,
    pub(crate) digest: Option<Vec<u8>>,
    pub(crate) vectors_version: Option<i32>,
    pub(crate) vectors: Option<Vec<u8>>,
}

/// The turns of the exchanges of a collection that changed after `since` and are not forgotten, in order.
pub(crate) async fn turns(
    db: &PgPool,
    user: UserId,
    collection: &Collection,
    since: i64,
    embedder: &str,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"
        select sealed_turn.seq, sealed_turn.id, sealed_turn.exchange_id, sealed_turn.key_version,
               case when digest.turn_id is null then sealed_turn.ciphertext end as "ciphertext?",
               digest.ciphertext as "digest?",
               vector.key_version as "vectors_version?",
               vector.ciphertext as "vectors?"
        from journal.sealed_exchange
        join journal.sealed_turn on sealed_turn.user_id = sealed_exchange.user_id
                                and sealed_turn.exchange_id = sealed_exchange.id
        left join vault.digest on digest.user_id = sealed_turn.user_id
                              and digest.turn_id = sealed_turn.id
                              and digest.key_version = sealed_turn.key_version
                              and digest.source = sha256(sealed_turn.ciphertext)
        left join vault.vector on vector.user_id = sealed_turn.user_id
                              and vector.turn_id = sealed_turn.id
                              and vector.embedder = $4
        where sealed_exchange.user_id = $1
          and sealed_exchange.collection = $2
          and changed_seq > $3
          and forgotten_at is null
        order by sealed_turn.seq
        "#,
        user.0,
        collection.as_str(),
        since,
        embedder
    )
    .fetch_all(db)
    .await
}

/// Some of those turns as they were written first.
pub(crate) async fn turns_as_written(db: &PgPool, user: UserId, turns: &[Uuid]) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"
        select seq, id, exchange_id, key_version, ciphertext as "ciphertext?",
               null::bytea as "digest?", null::integer as "vectors_version?", null::bytea as "vectors?"
        from journal.sealed_turn
        where user_id = $1
          and id = any($2)
        order by seq
        "#,
        user.0,
        turns
    )
    .fetch_all(db)
    .await
}

/// Some turns of a collection, forgotten ones too, that were written with a key before `version`, behind the place `after`.
pub(crate) async fn turns_behind(
    db: &PgPool,
    user: UserId,
    collection: &Collection,
    version: i32,
    after: i64,
    most: i64,
) -> sqlx::Result<Vec<Behind>> {
    sqlx::query_as!(
        Behind,
        r#"
        select sealed_turn.seq, sealed_turn.id, sealed_turn.key_version, sealed_turn.ciphertext
        from journal.sealed_exchange
        join journal.sealed_turn on sealed_turn.user_id = sealed_exchange.user_id
                                and sealed_turn.exchange_id = sealed_exchange.id
        where sealed_exchange.user_id = $1
          and sealed_exchange.collection = $2
          and sealed_turn.key_version < $3
          and sealed_turn.seq > $4
        order by sealed_turn.seq
        limit $5
        "#,
        user.0,
        collection.as_str(),
        version,
        after,
        most
    )
    .fetch_all(db)
    .await
}

/// A turn that was written with an older key.
pub(crate) struct Behind {
    pub(crate) seq: i64,
    pub(crate) id: Uuid,
    pub(crate) key_version: i32,
    pub(crate) ciphertext: Vec<u8>,
}

/// The exchanges of a collection that are not forgotten.
pub(crate) async fn alive(db: &PgPool, user: UserId, collection: &Collection) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"
        select id
        from journal.sealed_exchange
        where user_id = $1
          and collection = $2
          and forgotten_at is null
        "#,
        user.0,
        collection.as_str()
    )
    .fetch_all(db)
    .await
}

/// Keeps the sealed vectors of turns; of one that is gone meanwhile, nothing.
pub(crate) async fn keep_vectors(
    db: &PgPool,
    user: UserId,
    embedder: &str,
    turns: &[Uuid],
    versions: &[i32],
    ciphertexts: &[Vec<u8>],
) -> sqlx::Result<()> {
    sqlx::query!(
        r#"
        insert into vault.vector (user_id, turn_id, embedder, key_version, ciphertext)
        select $1, learned.turn_id, $2, learned.key_version, learned.ciphertext
        from unnest($3::uuid[], $4::integer[], $5::bytea[]) as learned (turn_id, key_version, ciphertext)
        join journal.sealed_turn on sealed_turn.user_id = $1 and sealed_turn.id = learned.turn_id
        on conflict (user_id, turn_id, embedder) do update
        set key_version = excluded.key_version, ciphertext = excluded.ciphertext
        "#,
        user.0,
        embedder,
        turns,
        versions,
        ciphertexts
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Keeps the digests of turns; of one that is gone meanwhile, or was written with another key, nothing.
pub(crate) async fn keep_digests(
    db: &PgPool,
    user: UserId,
    turns: &[Uuid],
    versions: &[i32],
    ciphertexts: &[Vec<u8>],
) -> sqlx::Result<()> {
    sqlx::query!(
        r#"
        insert into vault.digest (user_id, turn_id, key_version, source, ciphertext)
        select $1, made.turn_id, made.key_version, sha256(sealed_turn.ciphertext), made.ciphertext
        from unnest($2::uuid[], $3::integer[], $4::bytea[]) as made (turn_id, key_version, ciphertext)
        join journal.sealed_turn on sealed_turn.user_id = $1
                                and sealed_turn.id = made.turn_id
                                and sealed_turn.key_version = made.key_version
        on conflict (user_id, turn_id) do update
        set key_version = excluded.key_version, source = excluded.source, ciphertext = excluded.ciphertext
        "#,
        user.0,
        turns,
        versions,
        ciphertexts
    )
    .execute(db)
    .await?;
    Ok(())
}

/// How the collections of a user fade, where they have rules of their own, and the size of their parts.
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) half_life_days: Option<f32>,
    pub(crate) decay_floor: Option<f32>,
    pub(crate) part_tokens: Option<i32>,
}

/// The rules of a user's sealed collections.
pub(crate) async fn rules(db: &PgPool, user: UserId) -> sqlx::Result<Vec<Rule>> {
    sqlx::query_as!(
        Rule,
        r#"
        select name, half_life_days, decay_floor, part_tokens
        from journal.collection
        where user_id = $1
          and sealed
        "#,
        user.0
    )
    .fetch_all(db)
    .await
}

/// The zone of a user's days.
pub(crate) async fn timezone(db: &PgPool, user: UserId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select timezone from journal.users where id = $1", user.0).fetch_optional(db).await
}

/// How many sealed exchanges and turns a user has, how many turns have vectors, and the bytes of it over all users.
pub(crate) async fn stats(db: &PgPool, user: UserId) -> sqlx::Result<(Vec<(String, i64)>, i64)> {
    let row = sqlx::query!(
        r#"
        select (select count(*) from journal.sealed where user_id = $1) as "collections!",
               (select count(*) from journal.sealed_exchange where user_id = $1 and forgotten_at is null) as "exchanges!",
               (select count(*) from vault.vector where user_id = $1) as "vectors!",
               (pg_total_relation_size('journal.sealed_turn') + pg_total_relation_size('vault.vector')
                + pg_total_relation_size('vault.digest')) as "bytes!"
        "#,
        user.0
    )
    .fetch_one(db)
    .await?;
    let counts = [("collections", row.collections), ("exchanges", row.exchanges), ("turns_with_vectors", row.vectors)];
    Ok((counts.map(|(name, count)| (name.to_owned(), count)).to_vec(), row.bytes))
}
