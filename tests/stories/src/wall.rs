//! The promise of the second wall: what a statement forgets, no table gives away. Every table there is, tried with two
//! users who have used everything.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use skymem_core::UserId;
use skymem_core::wall::{acting_for, acting_for_everyone};
use skymem_harness::{Client, TestServer, story};
use sqlx::{AssertSqlSafe, PgPool};

/// Tables that hold rows only while something goes on or after it went wrong, or with a model that finds facts.
const MAY_BE_EMPTY: [&str; 3] = ["journal.parked", "journal.purge", "facts.reading"];

/// A table whose rows are users', and the column that says whose.
struct Table {
    name: String,
    column: String,
}

async fn tables(db: &PgPool) -> Vec<Table> {
    let found = "select format('%I.%I', nspname, relname), attname::text
                 from pg_attribute
                 join pg_class on pg_class.oid = attrelid
                 join pg_namespace on pg_namespace.oid = relnamespace
                 where relkind in ('r', 'p')
                   and nspname not in ('pg_catalog', 'information_schema')
                   and not attisdropped
                   and (attname = 'user_id' or (relname = 'users' and attname = 'id'))
                 order by 1";
    let found: Vec<(String, String)> = acting_for_everyone(sqlx::query_as(found).fetch_all(db)).await.unwrap();
    found.into_iter().map(|(name, column)| Table { name, column }).collect()
}

/// Uses everything that leaves rows.
async fn uses_everything(client: &Client, name: &str) -> UserId {
    let me = client.get("/v1/me").await.expect(200);
    let (secret, recipient) = skymem_seal::make_identity();
    client.post("/v1/collections/sealed/seal", json!({ "recipients": [recipient.to_string()] })).await.expect(201);
    let turns = json!([{ "role": "user", "content": format!("{name} keeps a secret") }]);
    let sealed = json!({ "collection": "sealed", "turns": turns });
    assert!(client.post("/v1/sessions/hidden/turns", sealed).await.status < 300);
    // Its vectors are made, and sealed, once somebody may read it.
    client.post("/v1/collections/sealed/unlock", json!({ "identity": secret.to_string() })).await.expect(200);
    for round in 0..12 {
        let text = format!("{name} planted {round} pear trees in the garden behind the house and watered them. ");
        client.says("garden", &text.repeat(20), "They will bear fruit in three years.").await;
    }
    let fact = json!({ "subject": name, "predicate": "owns", "object": "a garden" });
    client.post("/v1/facts", fact).await.expect(201);
    let gone = client.says("gone", &format!("{name} wants this to be gone"), "It will be.").await;
    let base = client.get("/v1/files/NOW.md").await.expect(200)["revision"].clone();
    let file = json!({ "text": format!("# Now\n\n- project: {name} uses: manure\n"), "base": base });
    client.put("/v1/files/NOW.md", file).await.expect(200);
    client.post("/v1/purge", json!({ "ids": [gone], "remembered_too": true })).await.expect(200);
    me["user_id"].as_str().and_then(|id| id.parse().ok()).map(UserId).unwrap()
}

async fn two_users(server: &TestServer) -> (UserId, UserId) {
    let berta = server.other_user("berta").await;
    let (anna, berta_id) = (uses_everything(server, "Anna").await, uses_everything(&berta, "Berta").await);
    server.catches_up().await;
    server.memory().upkeep().await.unwrap();
    for client in [&**server, &berta] {
        // What is put before an assistant is noted as used.
        client.context("other", "Which trees are in the garden?").await;
    }
    server.catches_up().await;
    (anna, berta_id)
}

async fn count(db: &PgPool, statement: String) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(statement.clone()))
        .fetch_one(db)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"))
}

#[test]
fn no_table_gives_or_takes_anything_of_others_whatever_the_statement_forgets() {
    story(async |server| {
        let (anna, berta) = two_users(server).await;
        let db = server.walled_pool().await;
        let tables = tables(&db).await;
        assert!(tables.len() > 30, "only {} tables are looked at", tables.len());
        let mut empty = Vec::new();
        for table in &tables {
            let Table { name, column } = table;
            let mut own = BTreeMap::new();
            for user in [anna, berta] {
                let rows = count(&db, format!("select count(*) from {name} where {column} = '{}'", user.0));
                own.insert(user.0, acting_for_everyone(rows).await);
            }
            if own.values().any(|rows| *rows == 0) {
                empty.push(name.as_str());
            }
            for (user, other) in [(anna, berta), (berta, anna)] {
                acting_for(user, behaves(&db, table, user, other, own[&user.0])).await;
            }
        }
        empty.retain(|name| !MAY_BE_EMPTY.contains(name));
        assert!(empty.is_empty(), "nothing was tried on {empty:?}: neither user has rows there");
    });
}

/// Tries a table as `user`, whose `own` rows it holds.
async fn behaves(db: &PgPool, table: &Table, user: UserId, other: UserId, own: i64) {
    let Table { name, column } = table;
    assert_eq!(count(db, format!("select count(*) from {name}")).await, own, "all of {name}");
    let others = format!("select count(*) from {name} where {column} <> '{}'", user.0);
    assert_eq!(count(db, others).await, 0, "others' in {name}");
    let asked = format!("select count(*) from {name} where {column} = '{}'", other.0);
    assert_eq!(count(db, asked).await, 0, "the other's in {name}");

    let row = format!("select to_jsonb(it) from {name} as it where {column} = '{}' limit 1", other.0);
    let row: Option<Value> =
        acting_for_everyone(sqlx::query_scalar(AssertSqlSafe(row)).fetch_optional(db)).await.unwrap();
    if let Some(row) = row {
        let insert =
            format!("insert into {name} overriding system value select * from jsonb_populate_record(null::{name}, $1)");
        let refused = sqlx::query(AssertSqlSafe(insert)).bind(row).execute(db).await.unwrap_err().to_string();
        assert!(refused.contains("row-level security"), "a row of another's for {name}: {refused}");
    }
    let give_away = format!("update {name} set {column} = '{}'", other.0);
    let mut tx = db.begin().await.unwrap();
    let given = sqlx::query(AssertSqlSafe(give_away)).execute(&mut *tx).await;
    assert!(own == 0 || given.is_err(), "rows of {name} can be given away");
    tx.rollback().await.unwrap();
    for change in [
        format!("delete from {name} where {column} = '{}'", other.0),
        format!("delete from {name} where {column} <> '{}'", user.0),
    ] {
        let done = sqlx::query(AssertSqlSafe(change.clone())).execute(db).await.unwrap();
        assert_eq!(done.rows_affected(), 0, "{change}");
    }
}

#[test]
fn every_table_that_names_a_user_stands_behind_the_wall() {
    story(async |server| {
        let db = server.walled_pool().await;
        // Whatever the column is called, if it is an id of a user's.
        let open = "select distinct format('%I.%I', nspname, relname)
                    from pg_class
                    join pg_namespace on pg_namespace.oid = relnamespace
                    join pg_attribute on attrelid = pg_class.oid and not attisdropped
                    where relkind in ('r', 'p')
                      and nspname not in ('pg_catalog', 'information_schema')
                      and (attname ~ '(^|_)user' or pg_class.oid = 'journal.users'::regclass)
                      and not (relrowsecurity and relforcerowsecurity
                               and exists (select from pg_policy where polrelid = pg_class.oid and polname = 'wall'))";
        let open: Vec<String> = acting_for_everyone(sqlx::query_scalar(open).fetch_all(&db)).await.unwrap();
        assert!(open.is_empty(), "without a wall: {open:?}");

        let role = "select rolsuper or rolbypassrls from pg_roles where rolname = current_user";
        let free: bool = acting_for_everyone(sqlx::query_scalar(role).fetch_one(&db)).await.unwrap();
        assert!(!free, "stories run as a role that no wall holds, and prove nothing");
    });
}
