//! Looks through tables as a dump would: every column of every table there is, so that no plugin is forgotten.

use futures_util::TryStreamExt;
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgPoolCopyExt;

use skymem_core::UserId;

use super::Purger;
use crate::error::StoreError;

/// Types that hold neither words nor ids.
const WORDLESS: [&str; 19] = [
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "bool",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "vector",
    "halfvec",
    "sparsevec",
    "_halfvec",
    "_vector",
    "_int4",
    "_int8",
];

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Whether its rows bear the id of a user in `user_id`: then those of others are left alone.
    pub has_user: bool,
    /// Its columns that can hold words or ids: all but numbers, times and vectors.
    pub columns: Vec<String>,
}

impl Place {
    /// Its name with its schema, for people.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Its name with its schema, for SQL.
    pub(super) fn quoted(&self) -> String {
        format!("{}.{}", quote(&self.schema), quote(&self.name))
    }
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Purger {
    /// Every table of every schema, those of plugins included.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn places(&self) -> Result<Vec<Place>, StoreError> {
        let places = sqlx::query_as!(
            Place,
            r#"
            select tables.table_schema::text  as "schema!",
                   tables.table_name::text    as "name!",
                   exists (select from information_schema.columns
                           where columns.table_schema = tables.table_schema
                             and columns.table_name = tables.table_name
                             and columns.column_name = 'user_id'
                             and columns.udt_name = 'uuid')  as "has_user!",
                   array(select columns.column_name::text
                         from information_schema.columns
                         where columns.table_schema = tables.table_schema
                           and columns.table_name = tables.table_name
                           and columns.udt_name <> all($1)
                         order by columns.ordinal_position)  as "columns!"
            from information_schema.tables
            where table_type = 'BASE TABLE'
              and table_schema not in ('pg_catalog', 'information_schema')
            order by 1, 2
            "#,
            &WORDLESS.map(str::to_owned)
        )
        .fetch_all(&self.db)
        .await?;
        Ok(places)
    }

    /// Gives every row of a table that is of `user`, or of nobody, to `look`, field by field as text.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn look_through(
        &self,
        place: &Place,
        user: UserId,
        mut look: impl FnMut(&[String]) + Send,
    ) -> Result<(), StoreError> {
        if place.columns.is_empty() {
            return Ok(());
        }
        let columns: Vec<String> = place.columns.iter().map(|column| quote(column)).collect();
        // An id is digits, letters and dashes: nothing that could be taken for SQL.
        let whose = if place.has_user { format!(" where user_id = '{}'", user.0) } else { String::new() };
        let rows = format!("copy (select {} from {}{whose}) to stdout", columns.join(", "), place.quoted());
        let mut stream = self.db.copy_out_raw(&rows).await?;
        let mut rest: Vec<u8> = Vec::new();
        while let Some(piece) = stream.try_next().await? {
            rest.extend_from_slice(&piece);
            let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let later = rest.split_off(end + 1);
            for line in rest.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                look(&fields(line));
            }
            rest = later;
        }
        Ok(())
    }

    /// Gives back the room of rows that are gone, and forgets the samples that the planner took of them; with `rewrite`,
    /// writes tables and indexes anew, so that nothing of what is gone stays behind in them. Others wait meanwhile.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn make_room(&self, places: &[Place], rewrite: bool) -> Result<(), StoreError> {
        let how = if rewrite { "vacuum (full, analyze)" } else { "vacuum (analyze)" };
        for place in places {
            sqlx::raw_sql(AssertSqlSafe(format!("{how} {}", place.quoted()))).execute(&self.db).await?;
        }
        // Only owners of the cluster may: elsewhere its administrator's own upkeep does it.
        for statement in [format!("{how} pg_catalog.pg_statistic"), "checkpoint".to_owned()] {
            if let Err(error) = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&self.db).await {
                tracing::debug!(%error, "Room could not be made in what the cluster keeps for itself");
            }
        }
        Ok(())
    }
}

impl Purger {
    /// Goes on with a new file of the write-ahead log, and has those removed in which something older stands. Only whoever owns
    /// the cluster may: elsewhere they stay until they are overwritten, or archived.
    pub async fn turn_the_log(&self) {
        for statement in ["select pg_switch_wal()", "checkpoint"] {
            if let Err(error) = sqlx::raw_sql(statement).execute(&self.db).await {
                tracing::debug!(%error, "The write-ahead log stays as it is");
            }
        }
    }
}

/// The fields of a line of `copy`, as they were before they were written so. Bytes come as the text they are, if they are.
fn fields(line: &[u8]) -> Vec<String> {
    line.split(|byte| *byte == b'\t').map(field).collect()
}

fn field(written: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => match rest.next() {
                Some(b'n') => bytes.push(b'\n'),
                Some(b't') => bytes.push(b'\t'),
                Some(b'r') => bytes.push(b'\r'),
                Some(b'b' | b'f' | b'v') => bytes.push(b' '),
                // Null.
                Some(b'N') => {}
                Some(other) => bytes.push(other),
                None => {}
            },
            byte => bytes.push(byte),
        }
    }
    // `bytea` is hexadecimal digits after `\x`.
    if let Some(digits) = bytes.strip_prefix(b"\\x")
        && let Ok(raw) = hex::decode(digits)
    {
        bytes = raw;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were() {
        let hexed = format!("\\\\x{}", hex::encode("nonce"));
        let line = format!("one\\ttwo\t\\N\tback\\\\slash\\n\t{hexed}");
        assert_eq!(fields(line.as_bytes()), ["one\ttwo", "", "back\\slash\n", "nonce"]);
    }

    #[test]
    fn a_name_is_quoted_whatever_it_is() {
        let place = Place { schema: "a\"b".into(), name: "c d".into(), has_user: false, columns: Vec::new() };
        assert_eq!(place.quoted(), r#""a""b"."c d""#);
    }
}
