//! `skymem facts add`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::{When, told, when, wire};
use crate::cli::Context;
use crate::output::{Outcome, list_at};

/// Tell memory that something holds. Told again it is the same fact; a new value of what one has one of at a time
/// (where one lives) ends the old one.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts add Anna lives_in Bremen --from 2026-05
  skymem facts add skymem uses PostgreSQL
  skymem facts add Anna born_on 1990-05-01 --literal
  skymem facts add Anna lives_in Bonn --corrects          what was told last was a mistake
  skymem facts add user likes tea                         `user` is you")]
pub(crate) struct Add {
    /// Of whom or what
    subject: String,
    /// What holds: lives_in, uses, caused_by, ...
    predicate: String,
    /// Its value: the name of another entity
    object: String,
    /// The value is nothing to walk to: a date, a number, a phrase
    #[arg(long)]
    literal: bool,
    /// Since when it holds (else no later than now)
    #[arg(long, value_name = "TIME", value_parser = when)]
    from: Option<When>,
    /// Until when it held
    #[arg(long, value_name = "TIME", value_parser = when)]
    until: Option<When>,
    /// How sure it is, above 0 to 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    confidence: f32,
    /// What was last told of the same was a mistake, not a change: this takes its place
    #[arg(long)]
    corrects: bool,
    /// The session it came up in (else `facts`)
    #[arg(long)]
    session: Option<String>,
    /// The collection it stands in
    #[arg(long)]
    collection: Option<String>,
    /// When it was said (else now)
    #[arg(long, value_name = "TIME", value_parser = when)]
    at: Option<When>,
}

impl Add {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let moments = [self.from.as_ref(), self.until.as_ref(), self.at.as_ref()];
        let [from, until, at] = wire(&client, moments).await?;
        let object = if self.literal { json!({ "literal": self.object }) } else { json!({ "entity": self.object }) };
        let mut body = json!({
            "subject": self.subject, "predicate": self.predicate, "object": object, "confidence": self.confidence,
            "corrects": self.corrects,
        });
        let given = [
            ("from", from),
            ("until", until),
            ("session", self.session),
            ("collection", self.collection),
            ("occurred_at", at),
        ];
        if let Some(body) = body.as_object_mut() {
            body.extend(given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?)))));
        }
        let answer = client.post(&["v1", "facts"], &body).await?;
        let text = list_at(&answer, "statements").first().map(told).unwrap_or_default();
        Ok(Outcome::new(text, answer))
    }
}
