//! `skymem key`: works on the database itself, so that a lost key can be replaced without one.

use anyhow::{Context as _, Result, bail};
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use skymem_core::wall::acting_for_everyone;
use skymem_core::{User, UserName};
use skymem_engine::{Clock, SystemClock};
use skymem_store::{self as store, Acting, Actor, Journal, Keys, Scope};
use sqlx::PgPool;

use crate::cli::Context;
use crate::config::Config;
use crate::database::{Database, Use};
use crate::output::{Outcome, table};
use crate::serve::{ensure_user, first_user, migrate_journal};

/// Keys that let programs in. Run on the server's machine, by the server's account; no server need run.
#[derive(Subcommand)]
pub(crate) enum Key {
    /// Make a key and print it, this once; with --user for that user, who is made when there is none
    #[command(
        after_help = "Examples:\n  skymem key create \"chat UI\"\n  skymem key create reader --scope read --days 30"
    )]
    Create {
        /// What it is for
        #[arg(default_value = "key")]
        name: String,
        /// What it may do: repeat for several (else read and write)
        #[arg(long = "scope", value_enum)]
        scopes: Vec<ScopeWord>,
        /// Days until it expires (else never)
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=3650))]
        days: Option<u16>,
    },
    /// List keys, without their secrets; with --user only that user's
    List,
    /// Take a key back, at once
    Revoke {
        /// The key's id, as `skymem key list` prints it
        id: String,
    },
    /// Make a new key like an old one, which is taken back: at once, or when clients had time to change over
    #[command(
        after_help = "Examples:\n  skymem key rotate 0123456789abcdef\n  skymem key rotate 0123456789abcdef --overlap-hours 24"
    )]
    Rotate {
        /// The key's id, as `skymem key list` prints it
        id: String,
        /// Hours for which the old one opens yet
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=8_760))]
        overlap_hours: u16,
    },
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeWord {
    /// Recall, context, every listing
    Read,
    /// Record, remember, edit, forget
    Write,
    /// Users, keys, purge, layers
    Admin,
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::Read => Scope::Read,
            ScopeWord::Write => Scope::Write,
            ScopeWord::Admin => Scope::Admin,
        }
    }
}

impl Key {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let config = &context.loaded()?.config;
        let database = Database::open(config, Use::Command).await?;
        // Whose key an id is, only a look at all of them tells.
        let outcome = acting_for_everyone(async {
            migrate_journal(&database.pool).await?;
            self.act(config, &database.pool, context.user(), SystemClock.now()).await
        })
        .await;
        database.close().await?;
        outcome
    }

    async fn act(self, config: &Config, pool: &PgPool, user: Option<&UserName>, now: DateTime<Utc>) -> Result<Outcome> {
        let acting = Acting { actor: Actor::command(), at: now };
        let (journal, keys) = (Journal::new(pool.clone()).by(acting.clone()), Keys::new(pool.clone()).by(acting));
        match self {
            Key::Create { name, scopes, days } => {
                let user = match user {
                    Some(name) => ensure_user(&journal, name, now).await?,
                    None => first_user(config, pool, now).await?,
                };
                let scopes = if scopes.is_empty() { vec![ScopeWord::Read, ScopeWord::Write] } else { scopes };
                let scopes: Vec<Scope> = scopes.into_iter().map(Into::into).collect();
                let expires_at = days.map(|days| now + TimeDelta::days(i64::from(days)));
                Ok(made(&keys.make(user.id, &name, &scopes, now, expires_at).await?, &user))
            }
            Key::List => {
                let mut all = all_keys(&journal, &keys).await?;
                if let Some(name) = user {
                    all.retain(|(owner, _)| owner.name == *name);
                }
                Ok(list(&all, now))
            }
            Key::Revoke { id } => {
                let (user, key) = find(&journal, &keys, &id).await?;
                keys.revoke(user.id, &key.id, now).await?;
                Ok(Outcome::new(format!("Revoked key {id} ({}).", key.name), shown(&user, &key)))
            }
            Key::Rotate { id, overlap_hours } => {
                let (user, key) = find(&journal, &keys, &id).await?;
                let old_until = now + TimeDelta::hours(i64::from(overlap_hours));
                match keys.rotate(user.id, &key.id, now, old_until).await? {
                    Some(new) => Ok(made(&new, &user)),
                    None => bail!("key {id} opens nothing any more: make a new one with `skymem key create`"),
                }
            }
        }
    }
}

async fn all_keys(journal: &Journal, keys: &Keys) -> Result<Vec<(User, store::Key)>> {
    let mut all = Vec::new();
    for user in journal.users().await? {
        all.extend(keys.list(user.id).await?.into_iter().map(|key| (user.clone(), key)));
    }
    Ok(all)
}

async fn find(journal: &Journal, keys: &Keys, id: &str) -> Result<(User, store::Key)> {
    let mut all = all_keys(journal, keys).await?.into_iter();
    all.find(|(_, key)| key.id.as_str() == id)
        .with_context(|| format!("there is no key {id}: `skymem key list` lists them"))
}

fn made(new: &store::NewKey, user: &User) -> Outcome {
    let mut json = shown(user, &new.key);
    if let Some(object) = json.as_object_mut() {
        object.insert("text".into(), new.secret.reveal().into());
    }
    Outcome::new(format!("{}\n\nShown this once: keep it. Its id is {}.", new.secret.reveal(), new.key.id), json)
}

fn shown(user: &User, key: &store::Key) -> Value {
    json!({
        "id": key.id.as_str(),
        "name": key.name,
        "user": user.name,
        "scopes": key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>(),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    })
}

fn list(keys: &[(User, store::Key)], now: DateTime<Utc>) -> Outcome {
    let rows = keys.iter().map(|(user, key)| {
        [
            key.id.to_string(),
            key.name.clone(),
            user.name.to_string(),
            key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "),
            day(Some(key.created_at)),
            day(key.last_used_at),
            state(key, now),
        ]
    });
    let text = match keys.is_empty() {
        true => "No keys yet: `skymem key create` makes one.".into(),
        false => table(["ID", "NAME", "USER", "MAY", "MADE", "USED", "STATE"], rows.collect()),
    };
    Outcome::new(text, json!({ "keys": keys.iter().map(|(user, key)| shown(user, key)).collect::<Vec<_>>() }))
}

fn day(moment: Option<DateTime<Utc>>) -> String {
    moment.map_or_else(|| "never".into(), |moment| moment.format("%Y-%m-%d").to_string())
}

fn state(key: &store::Key, now: DateTime<Utc>) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => format!("revoked {}", day(key.revoked_at)),
        (None, Some(end)) if end <= now => format!("expired {}", day(Some(end))),
        (None, Some(end)) => format!("until {}", day(Some(end))),
        (None, None) => "good".into(),
    }
}
