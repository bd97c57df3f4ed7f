//! A database for one story, in the cluster that `DATABASE_URL` names.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use skymem_core::UserId;
use skymem_store::wall::{for_everyone, walled};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool};

pub(crate) struct Scratch {
    name: String,
    url: String,
}

impl Scratch {
    pub(crate) async fn make() -> Self {
        let name = format!("story_{}", uuid::Uuid::new_v4().simple());
        run(&format!("create database {name}")).await;
        let url = with_database(&server_url(), &name);
        Self { name, url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn drop(self) {
        run(&format!("drop database {} with (force)", self.name)).await;
    }
}

/// The journals of a database, held: who writes waits.
#[derive(Debug)]
pub struct Held {
    _holder: PgConnection,
}

impl Held {
    pub(crate) async fn of(url: &str) -> Self {
        let options = PgConnectOptions::from_str(url).expect("the story's own URL");
        let mut holder = for_everyone(options).connect().await.expect("the database answers");
        // Whoever writes locks the row of the user; the lock goes with the connection.
        let hold = "begin; select id from journal.users for update";
        sqlx::raw_sql(hold).execute(&mut holder).await.expect("the rows can be locked");
        Self { _holder: holder }
    }
}

/// Connections like the server's own.
pub(crate) async fn walled_pool(url: &str) -> PgPool {
    let options = PgConnectOptions::from_str(url).expect("the story's own URL");
    walled(PgPoolOptions::new().max_connections(1)).connect_with(options).await.expect("the database answers")
}

/// Runs statements on the database of a story.
pub(crate) async fn sql(url: &str, statements: &str) -> Result<(), sqlx::Error> {
    let mut connection = for_everyone(PgConnectOptions::from_str(url)?).connect().await?;
    let done = sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut connection).await;
    connection.close().await?;
    done.map(|_| ())
}

/// In how many rows of which tables a word stands, read as a dump would read them, and in how many files of `folder`: by
/// other means than the server's own.
pub(crate) async fn hits(url: &str, word: &str, folder: &Path) -> Result<BTreeMap<String, i64>, sqlx::Error> {
    let mut connection = for_everyone(PgConnectOptions::from_str(url)?).connect().await?;
    // Samples of walled tables are shown to nobody whom the wall holds. It is taken down while they are looked at.
    let walled = "select format('%s', pg_class.oid::regclass) from pg_class where relforcerowsecurity";
    let walled: Vec<String> = sqlx::query_scalar(walled).fetch_all(&mut connection).await?;
    let mut connection = connection.begin().await?;
    for table in walled {
        let down = format!("alter table {table} no force row level security");
        sqlx::raw_sql(AssertSqlSafe(down)).execute(&mut *connection).await?;
    }
    let tables = "select format('%I.%I', table_schema, table_name) from information_schema.tables \
                  where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut *connection).await?;
    let mut hits = BTreeMap::new();
    for table in tables {
        let rows = format!(
            "select count(*) from {table} as it \
             where position($1 in lower(it::text)) > 0 or position(encode(convert_to($1, 'UTF8'), 'hex') in it::text) > 0"
        );
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(rows)).bind(word).fetch_one(&mut *connection).await?;
        if rows > 0 {
            hits.insert(table, rows);
        }
    }
    let statistics = "select count(*) from pg_stats where position($1 in coalesce(most_common_vals::text, '') || coalesce(histogram_bounds::text, '')) > 0";
    let samples: i64 = sqlx::query_scalar(statistics).bind(word).fetch_one(&mut *connection).await?;
    if samples > 0 {
        hits.insert("pg_stats".into(), samples);
    }
    connection.rollback().await?;
    let files = files_with(word.as_bytes(), folder);
    if files > 0 {
        hits.insert("files".into(), files);
    }
    Ok(hits)
}

/// How many rows of a user there are in each table, and a sum over them, in any order.
pub(crate) async fn rows_of(url: &str, user: UserId) -> Result<BTreeMap<String, (i64, String)>, sqlx::Error> {
    let mut connection = for_everyone(PgConnectOptions::from_str(url)?).connect().await?;
    let tables = "select format('%I.%I', table_schema, table_name), \
                         case when table_name = 'users' then 'id' else 'user_id' end \
                  from information_schema.tables \
                  where table_type = 'BASE TABLE' \
                    and (table_name = 'users' \
                         or exists (select from information_schema.columns \
                                    where columns.table_schema = tables.table_schema \
                                      and columns.table_name = tables.table_name \
                                      and column_name = 'user_id'))";
    let tables: Vec<(String, String)> = sqlx::query_as(tables).fetch_all(&mut connection).await?;
    let mut rows = BTreeMap::new();
    for (table, column) in tables {
        let sum = format!(
            "select count(*), coalesce(md5(string_agg(row, '' order by row)), '') \
             from (select md5((to_jsonb(it) - array['last_used_at', 'leased_by', 'leased_until'])::text) as row \
                   from {table} as it where {column} = $1) as rows"
        );
        let sum: (i64, String) = sqlx::query_as(AssertSqlSafe(sum)).bind(user.0).fetch_one(&mut connection).await?;
        if sum.0 > 0 {
            rows.insert(table, sum);
        }
    }
    connection.close().await?;
    Ok(rows)
}

/// How many files under `folder` hold these bytes.
fn files_with(bytes: &[u8], folder: &Path) -> i64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let held = entries.map(|path| match std::fs::read(&path) {
        _ if path.is_dir() => files_with(bytes, &path),
        Ok(text) => i64::from(text.windows(bytes.len()).any(|window| window == bytes)),
        Err(_) => 0,
    });
    held.sum()
}

async fn run(statement: &str) {
    let options = PgConnectOptions::from_str(&server_url()).expect("DATABASE_URL is a Postgres URL");
    let mut server: PgConnection = match options.connect().await {
        Ok(server) => server,
        Err(error) => panic!("the Postgres of DATABASE_URL does not answer: {error}"),
    };
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut server).await.expect("a database can be made");
    server.close().await.expect("the connection closes");
}

/// From the environment, or from `.env` at the root of the workspace.
fn server_url() -> String {
    let from_file = || {
        let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.env")).ok()?;
        file.lines().find_map(|line| line.strip_prefix("DATABASE_URL=").map(str::to_owned))
    };
    let url = std::env::var("DATABASE_URL").ok().or_else(from_file);
    url.unwrap_or_else(|| panic!("neither DATABASE_URL nor .env names a Postgres to test against: run `make test`"))
}

/// The same URL with another database.
fn with_database(url: &str, name: &str) -> String {
    let (address, options) = url.split_once('?').map_or((url, None), |(address, options)| (address, Some(options)));
    let start = address.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = address.split_at(start);
    let host = rest.split('/').next().unwrap_or_default();
    let options = options.map(|options| format!("?{options}")).unwrap_or_default();
    format!("{scheme}{host}/{name}{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_is_changed() {
        assert_eq!(with_database("postgres://a:b@h:1/x?host=/tmp/s", "y"), "postgres://a:b@h:1/y?host=/tmp/s");
        assert_eq!(with_database("postgres://h", "y"), "postgres://h/y");
    }
}
