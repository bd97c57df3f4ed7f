//! `skymem purge`

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::Context;
use crate::output::{Outcome, counted, list_at, minute, table, text_at};

/// Remove exchanges for good, look everywhere whether anything of them is left, and print the receipt. There is no way back:
/// without --yes it is only said what would go.
#[derive(Args)]
#[command(group = ArgGroup::new("what").multiple(false))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    after_help = "Examples:\n  skymem purge --trash --yes\n  skymem purge --text \"blue heron\" --yes > receipt.json --json\n  \
                  skymem purge verify receipt.json"
)]
pub(crate) struct Purge {
    #[command(subcommand)]
    about: Option<About>,
    /// These exchanges, by id
    #[arg(group = "what")]
    ids: Vec<String>,
    /// All of this session
    #[arg(long, group = "what")]
    session: Option<String>,
    /// All in this collection
    #[arg(long, group = "what")]
    collection: Option<String>,
    /// All that anything is known of somebody or something from
    #[arg(long, group = "what", value_name = "NAME")]
    entity: Option<String>,
    /// All in which this text stands
    #[arg(long, group = "what")]
    text: Option<String>,
    /// All that is in the trash
    #[arg(long, group = "what")]
    trash: bool,
    /// A user, with everything that is kept of them
    #[arg(long, group = "what", value_name = "NAME")]
    whole_user: Option<String>,
    /// Only what is in the trash
    #[arg(long)]
    only_trash: bool,
    /// Write tables anew, so that nothing stays behind in their pages; others wait meanwhile
    #[arg(long)]
    rewrite: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
}

/// What there is to know of purges.
#[derive(Subcommand)]
enum About {
    /// Check that a receipt is one of this server's, as it was made
    Verify {
        /// The receipt, as `skymem purge --json` or `skymem purge receipts --json` printed it
        file: PathBuf,
    },
    /// List the receipts, newest first; or show one
    Receipts {
        /// The receipt's id
        id: Option<String>,
        /// The server's own: of users that were removed
        #[arg(long)]
        server: bool,
    },
}

impl Purge {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        match self.about {
            Some(About::Verify { file }) => verify(context, &file).await,
            Some(About::Receipts { id, server }) => receipts(context, id.as_deref(), server).await,
            None => self.purge(context).await,
        }
    }

    async fn purge(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        if let Some(user) = self.whole_user {
            if !self.yes {
                let text = format!("User {user} would be removed with everything that is kept of them. --yes does it.");
                return Ok(Outcome::new(text, json!({ "user": user, "dry_run": true })));
            }
            let answer = client.call(reqwest::Method::DELETE, &["v1", "users", &user], &[], None).await?;
            let failed = !is_clean(&answer);
            return Ok(Outcome::new(told(&answer), answer).failed_if(failed));
        }
        let mut body = match (self.session, self.collection, self.entity, self.text, self.trash) {
            (Some(session), ..) => json!({ "session": session }),
            (_, Some(collection), ..) => json!({ "collection": collection }),
            (_, _, Some(entity), ..) => json!({ "entity": entity }),
            (_, _, _, Some(text), _) => json!({ "text": text }),
            (.., true) => json!({ "all": true }),
            _ if self.ids.is_empty() => {
                bail!("say what: ids, --session, --collection, --entity, --text, --trash or --whole-user")
            }
            _ => json!({ "ids": self.ids }),
        };
        if let Some(body) = body.as_object_mut() {
            body.insert("remembered_too".into(), (!self.trash && !self.only_trash).into());
            body.insert("rewrite".into(), self.rewrite.into());
            body.insert("dry_run".into(), (!self.yes).into());
        }
        let answer = client.post(&["v1", "purge"], &body).await?;
        let how_many = counted(answer.get("count").and_then(Value::as_u64).unwrap_or(0), "exchange");
        if !self.yes {
            return Ok(Outcome::new(format!("{how_many} would be gone for good. --yes does it."), answer));
        }
        let Some(receipt) = answer.get("receipt").filter(|receipt| !receipt.is_null()) else {
            return Ok(Outcome::new("There was nothing to purge.", answer));
        };
        let (text, failed) = (format!("{how_many} gone for good.\n{}", told(receipt)), !is_clean(receipt));
        Ok(Outcome::new(text, answer).failed_if(failed))
    }
}

pub(super) fn is_clean(receipt: &Value) -> bool {
    receipt.pointer("/receipt/clean").and_then(Value::as_bool).unwrap_or(false)
}

/// A receipt for people.
pub(super) fn told(signed: &Value) -> String {
    let Some(receipt) = signed.get("receipt") else { return String::new() };
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let looked = list_at(receipt, "looked");
    let items: u64 = looked.iter().map(|here| number(here, "items")).sum();
    let mut lines = vec![format!(
        "Receipt {}: looked for {} in {} ({} rows and files).",
        text_at(receipt, "/id"),
        counted(number(receipt, "traces"), "trace"),
        counted(looked.len() as u64, "place"),
        crate::output::grouped(items),
    )];
    let left: Vec<String> = looked
        .iter()
        .filter(|here| number(here, "words") + number(here, "ids") > 0)
        .map(|here| {
            format!(
                "  {}: {} with words, {} with ids",
                text_at(here, "/place"),
                number(here, "words"),
                number(here, "ids")
            )
        })
        .collect();
    if left.is_empty() {
        lines.push("Nothing is left where it was looked.".into());
    } else {
        lines.push("Something is left:".into());
        lines.extend(left);
    }
    lines.push("Not to be reached from here:".into());
    lines.extend(list_at(receipt, "unreachable").iter().filter_map(Value::as_str).map(|what| format!("  {what}")));
    lines.join("\n")
}

async fn verify(context: &Context, file: &std::path::Path) -> Result<Outcome> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let given: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))?;
    // As the answer of a purge has it, or by itself.
    let signed = given.get("receipt").filter(|inner| inner.get("signature").is_some()).unwrap_or(&given);
    let (Some(receipt), Some(signature)) = (signed.get("receipt"), signed.get("signature")) else {
        bail!("{} is no receipt: it has neither `receipt` nor `signature`", file.display());
    };
    let body = json!({ "receipt": receipt, "signature": signature });
    let answer = context.client()?.post(&["v1", "receipts", "verify"], &body).await?;
    let valid = answer.get("valid").and_then(Value::as_bool).unwrap_or(false);
    let text = match valid {
        true => format!("The receipt is this server's, as it was made.\n{}", told(signed)),
        false => format!("The receipt is not to be trusted: {}.", text_at(&answer, "/fault")),
    };
    Ok(Outcome::new(text, answer).failed_if(!valid))
}

async fn receipts(context: &Context, id: Option<&str>, server: bool) -> Result<Outcome> {
    let query: Vec<(&str, String)> = server.then(|| ("of", "server".to_owned())).into_iter().collect();
    let client = context.client()?;
    if let Some(id) = id {
        let answer = client.get(&["v1", "receipts", id], &query).await?;
        return Ok(Outcome::new(told(&answer), answer));
    }
    let answer = client.get(&["v1", "receipts"], &query).await?;
    let rows: Vec<[String; 4]> = list_at(&answer, "receipts")
        .iter()
        .map(|signed| {
            [
                minute(text_at(signed, "/receipt/made_at")),
                text_at(signed, "/receipt/id").to_owned(),
                text_at(signed, "/receipt/aim").to_owned(),
                if is_clean(signed) { "nothing left".into() } else { "something left".into() },
            ]
        })
        .collect();
    let text = match rows.is_empty() {
        true => "Nothing was purged yet.".into(),
        false => table(["WHEN", "RECEIPT", "OF", "FOUND"], rows),
    };
    Ok(Outcome::new(text, answer))
}
