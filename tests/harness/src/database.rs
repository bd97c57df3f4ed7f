//! A database for one story, in the cluster that `DATABASE_URL` names.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

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
        let mut holder = options.connect().await.expect("the database answers");
        // Whoever writes locks the row of the user; the lock goes with the connection.
        let hold = "begin; select id from journal.users for update";
        sqlx::raw_sql(hold).execute(&mut holder).await.expect("the rows can be locked");
        Self { _holder: holder }
    }
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
