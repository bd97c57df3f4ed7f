//! `skymem facts entities`, `kind`, `merge`, `split`

use anyhow::Result;
use clap::{Args, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::sessions::with_next;
use super::{Seen, told};
use crate::cli::Context;
use crate::output::{Outcome, grouped, list_at, table, text_at};

/// List who and what facts are about, best known first.
#[derive(Args)]
#[command(after_help = "Examples:\n  skymem facts entities\n  skymem facts entities ann --as-of 2024")]
pub(crate) struct Entities {
    /// Only those with this in their name or in an alias
    like: Option<String>,
    #[command(flatten)]
    seen: Seen,
    /// How many to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Where the page before ended
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
}

impl Entities {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.like.map(|like| ("like", like)));
        query.extend(self.after.map(|after| ("after", after)));
        self.seen.write(&client, &mut query).await?;
        let answer = client.get(&["v1", "entities"], &query).await?;
        let rows: Vec<_> = list_at(&answer, "entities").iter().map(row).collect();
        let text = match rows.is_empty() {
            true => "No entities.".into(),
            false => table(["NAME", "KIND", "FACTS", "ALIASES"], rows),
        };
        Ok(Outcome::new(with_next(text, &answer), answer))
    }
}

fn row(entity: &Value) -> [String; 4] {
    let aliases: Vec<&str> = list_at(entity, "aliases").iter().filter_map(Value::as_str).collect();
    [
        text_at(entity, "/name").to_owned(),
        text_at(entity, "/kind").to_owned(),
        grouped(entity.get("facts").and_then(Value::as_u64).unwrap_or(0)),
        aliases.join(", "),
    ]
}

/// Say what an entity is.
#[derive(Args)]
pub(crate) struct Kind {
    /// The entity: its name, an alias or its id
    name: String,
    /// What it is
    #[arg(value_enum)]
    kind: KindWord,
}

/// What an entity may be.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindWord {
    Person,
    Organisation,
    Place,
    Project,
    Technology,
    Event,
    Animal,
    Other,
}

impl Kind {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let kind = self.kind.to_possible_value().map(|word| word.get_name().to_owned());
        let path = ["v1", "entities", &self.name];
        let answer = context.client()?.call(Method::PATCH, &path, &[], Some(&json!({ "kind": kind }))).await?;
        Ok(Outcome::new(told(&answer), answer))
    }
}

/// Make two entities one: the facts of both are facts of one from here on, and both names find it.
#[derive(Args)]
#[command(after_help = "Example:\n  skymem facts merge Robert Bob          Bob is called Robert from here on")]
pub(crate) struct Merge {
    /// What it is called from here on: a name or an id
    name: String,
    /// The other: a name or an id
    alias: String,
}

impl Merge {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let body = json!({ "name": self.name, "alias": self.alias });
        let answer = context.client()?.post(&["v1", "entities", "merge"], &body).await?;
        Ok(Outcome::new(told(&answer), answer))
    }
}

/// Tell two entities apart that bear one name: what supports the given facts, and what the given exchanges say, is about
/// another from here on.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts split Bob \"Bob from work\" --fact 0198c0de-0000-5000-8000-000000000000
  skymem facts split Bob \"Bob from work\" --exchange 0198c0de-0000-7000-8000-000000000000")]
pub(crate) struct Split {
    /// The name that stands for two, an alias or the id
    name: String,
    /// What the second is called from here on
    other: String,
    /// A fact about the second; repeat for several
    #[arg(long = "fact", value_name = "ID", required_unless_present = "exchanges")]
    facts: Vec<String>,
    /// An exchange about the second; repeat for several
    #[arg(long = "exchange", value_name = "ID")]
    exchanges: Vec<String>,
}

impl Split {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let body = json!({
            "name": self.name, "other": self.other, "exchanges": self.exchanges, "facts": self.facts,
        });
        let answer = context.client()?.post(&["v1", "entities", "split"], &body).await?;
        Ok(Outcome::new(told(&answer), answer))
    }
}

#[cfg(test)]
mod tests {
    use skymem_core::facts::EntityKind;

    use super::*;

    #[test]
    fn every_kind_can_be_said() {
        let words: Vec<String> = KindWord::value_variants()
            .iter()
            .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
            .collect();
        assert_eq!(words, EntityKind::ALL.map(EntityKind::as_str));
    }

    #[test]
    fn an_entity_is_a_row() {
        let entity = json!({ "name": "Robert", "kind": "person", "facts": 1200, "aliases": ["Bob", "Bobby"] });
        assert_eq!(row(&entity), ["Robert", "person", "1,200", "Bob, Bobby"]);
    }
}
