//! A user's policy about secrets, applied to turns before anything of them is kept, hashed or compared.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use skymem_core::facts::{Holds, Object, Statement};
use skymem_core::{Collection, SessionId, UserId};
use skymem_store::{NewTurn, SecretPolicy, SecretSetting};

use super::{SecretsFound, mark, redact, told};
use crate::error::EngineError;
use crate::memory::Memory;

/// Longer texts are looked through where others need not wait.
const LONG: usize = 64 * 1024;

/// How many secrets were met in what was to be remembered, and what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SecretsMet {
    /// What the user wants done about them.
    pub policy: SecretPolicy,
    /// How many there were of each kind.
    pub found: SecretsFound,
    /// The sealed collection that what holds them goes to, when the policy is to seal them.
    pub collection: Option<Collection>,
}

/// Turns that were looked through for secrets.
#[derive(Debug, Default)]
pub(crate) struct Screened {
    /// As they may stand in the clear.
    pub(crate) turns: Vec<NewTurn>,
    /// Those among them that hold secrets to be sealed, whole, by their place.
    pub(crate) whole: BTreeMap<usize, NewTurn>,
    /// What was met.
    pub(crate) met: SecretsMet,
}

impl Memory {
    /// What is done about secrets in what `user` tells: what they said, else the server's setting; and where they go when
    /// they are sealed.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn secret_policy(&self, user: UserId) -> Result<(SecretPolicy, Option<Collection>), EngineError> {
        let SecretSetting { policy, collection } = self.inner.journal.secret_setting(user).await?;
        Ok((policy.unwrap_or(self.inner.settings.secrets.policy), collection))
    }

    /// Says what is done about secrets in what `user` tells, and which sealed collection they go to; `Some(None)` for what
    /// the server's setting says, and for no collection. Holds for what is told from now on.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] when secrets are to be sealed and there is no sealed collection that they would go to.
    pub async fn set_secrets(
        &self,
        user: UserId,
        policy: Option<Option<SecretPolicy>>,
        collection: Option<Option<Collection>>,
    ) -> Result<(), EngineError> {
        let mut setting = self.inner.journal.secret_setting(user).await?;
        let names = matches!(collection, Some(Some(_)));
        setting.policy = policy.unwrap_or(setting.policy);
        setting.collection = collection.unwrap_or(setting.collection);
        let seals = setting.policy == Some(SecretPolicy::Seal);
        match &setting.collection {
            None if seals => return Err(EngineError::Refused(NOWHERE.into())),
            // A collection that was named before may have been shredded since: that bars no other change.
            Some(named) if (seals || names) && !self.is_sealed(user, named).await? => {
                return Err(EngineError::Refused(format!(
                    "collection {named} is not sealed: seal it first, with `skymem vault seal {named}`"
                )));
            }
            _ => {}
        }
        Ok(self.journal().set_secret_setting(user, &setting).await?)
    }

    async fn is_sealed(&self, user: UserId, collection: &Collection) -> Result<bool, EngineError> {
        let sealed = self.inner.journal.sealed_collections(user).await?;
        Ok(sealed.iter().any(|sealed| sealed.collection == *collection))
    }

    /// Looks `turns` through and has the user's policy about secrets done on them. Idempotent where they are redacted: then
    /// there are none any more.
    pub(crate) async fn screen(&self, user: UserId, turns: Vec<NewTurn>) -> Result<Screened, EngineError> {
        let length: usize = turns.iter().map(|turn| turn.text.len()).sum();
        let (mut turns, cleaned, found) = if length < LONG {
            look_through(turns)
        } else {
            let broken = |source| EngineError::Unavailable {
                what: "what was told could not be looked through for secrets".into(),
                source: Box::new(source),
            };
            tokio::task::spawn_blocking(|| look_through(turns)).await.map_err(broken)?
        };
        if found.is_empty() {
            return Ok(Screened { turns, ..Screened::default() });
        }
        let met = self.met(user, found).await?;
        let mut whole = BTreeMap::new();
        if met.policy != SecretPolicy::Allow {
            for (place, turn) in cleaned {
                if let Some(slot) = turns.get_mut(place) {
                    let held = std::mem::replace(slot, turn);
                    if met.policy == SecretPolicy::Seal {
                        whole.insert(place, held);
                    }
                }
            }
        }
        Ok(Screened { turns, whole, met })
    }

    /// What people call something, without its secrets unless they are to be kept: names are never sealed.
    pub(crate) async fn name_without_secrets(&self, user: UserId, name: String) -> Result<String, EngineError> {
        let mut found = SecretsFound::default();
        let clean = redact(&name, &mut found).into_owned();
        let keeps = found.is_empty() || self.secret_policy(user).await?.0 == SecretPolicy::Allow;
        Ok(if keeps { name } else { clean })
    }

    /// What is done about secrets that were found.
    async fn met(&self, user: UserId, found: SecretsFound) -> Result<SecretsMet, EngineError> {
        let (policy, collection) = self.secret_policy(user).await?;
        let collection = collection.filter(|_| policy == SecretPolicy::Seal);
        if policy == SecretPolicy::Seal && collection.is_none() {
            return Err(EngineError::Refused(NOWHERE.into()));
        }
        Ok(SecretsMet { policy, found, collection })
    }

    /// Has the user's policy about secrets done on statements, before they are named by what they say. Facts are kept in the
    /// clear: where secrets are sealed, the statement is kept without them, and the whole of it goes as a note to the sealed
    /// collection, beside `session`.
    pub(crate) async fn statements_without_secrets(
        &self,
        user: UserId,
        session: &SessionId,
        statements: Vec<Statement>,
    ) -> Result<(Vec<Statement>, SecretsMet), EngineError> {
        let mut found = SecretsFound::default();
        let cleaned: Vec<Statement> =
            statements.iter().map(|statement| clean_statement(statement, &mut found)).collect();
        if found.is_empty() {
            return Ok((statements, SecretsMet::default()));
        }
        let met = self.met(user, found).await?;
        if met.policy == SecretPolicy::Allow {
            return Ok((statements, met));
        }
        if let Some(collection) = &met.collection {
            let held = statements.iter().zip(&cleaned).filter(|(whole, clean)| whole != clean);
            self.seal_notes(user, collection, session, held.map(|(whole, _)| whole.to_string()).collect()).await?;
        }
        Ok((cleaned, met))
    }
}

const NOWHERE: &str = "secrets are to be sealed, and no sealed collection is named that they would go to: \
                       name one as `secrets_collection`, with `skymem secrets seal --collection NAME`";

impl SecretsMet {
    /// Adds what else was met in the same request.
    pub(crate) fn add(&mut self, other: SecretsMet) {
        if other.found.is_empty() {
            return;
        }
        (self.policy, self.collection) = (other.policy, other.collection);
        for (kind, count) in other.found.0 {
            *self.found.0.entry(kind).or_default() += count;
        }
    }

    /// Counts what was met.
    pub(crate) fn count(&self) {
        for (kind, count) in &self.found.0 {
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            metrics::counter!("skymem_secrets_total", "kind" => *kind, "policy" => self.policy.as_str())
                .increment(count);
        }
    }
}

type Cleaned = BTreeMap<usize, NewTurn>;

fn look_through(turns: Vec<NewTurn>) -> (Vec<NewTurn>, Cleaned, SecretsFound) {
    let mut found = SecretsFound::default();
    let cleaned =
        turns.iter().enumerate().filter_map(|(place, turn)| Some((place, clean(turn, &mut found)?))).collect();
    (turns, cleaned, found)
}

/// `turn` without its secrets; `None` when it has none. What was met is added to `found`, once where the text of a turn
/// says what its parts say.
pub(super) fn clean(turn: &NewTurn, found: &mut SecretsFound) -> Option<NewTurn> {
    let (mut in_text, mut in_parts) = (SecretsFound::default(), SecretsFound::default());
    let text = redact(&turn.text, &mut in_text).into_owned();
    let mut parts = turn.parts.clone();
    if let Some(parts) = &mut parts {
        clean_value(parts, &mut in_parts);
    }
    if in_text.is_empty() && in_parts.is_empty() {
        return None;
    }
    for (kind, count) in in_parts.0 {
        let met = in_text.0.entry(kind).or_default();
        *met = (*met).max(count);
    }
    for (kind, count) in in_text.0 {
        *found.0.entry(kind).or_default() += count;
    }
    Some(NewTurn { text, parts, ..turn.clone() })
}

/// Redacts every text within `value`; what stands under a name such as `password` by that name.
fn clean_value(value: &mut Value, met: &mut SecretsFound) {
    match value {
        Value::String(text) if is_written_out(text) => {}
        Value::String(text) => {
            if let Cow::Owned(clean) = redact(text, met) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean_value(item, met)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) => {
                        let kind = if is_written_out(text) { None } else { told::kind_under(name, text) };
                        match kind {
                            Some(kind) => {
                                met.add(kind);
                                *text = mark(kind);
                            }
                            None => clean_value(value, met),
                        }
                    }
                    _ => clean_value(value, met),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether `text` is the address of a file or a picture that stands in the address itself, as bytes in base64: chance
/// throughout, and no text.
fn is_written_out(text: &str) -> bool {
    let Some((kind, bytes)) = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) else {
        return false;
    };
    const KINDS: [&str; 7] = ["application/", "audio/", "font/", "image/", "model/", "text/", "video/"];
    let in_kind = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-.;=_".contains(&byte);
    let in_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte);
    let is_kind = kind.len() <= 100 && KINDS.iter().any(|known| kind.starts_with(known)) && kind.bytes().all(in_kind);
    is_kind && bytes.bytes().all(in_base64)
}

/// `statement` without its secrets: those in its words, and what it says a password is.
fn clean_statement(statement: &Statement, found: &mut SecretsFound) -> Statement {
    let mut met = SecretsFound::default();
    let mut clean = statement.clone();
    if let Some((predicate, object)) = said(&mut clean)
        && let Some(kind) = told::kind_under(&predicate, object)
    {
        met.add(kind);
        *object = mark(kind);
    }
    let Ok(mut value) = serde_json::to_value(&clean) else { return statement.clone() };
    clean_value(&mut value, &mut met);
    if met.is_empty() {
        return statement.clone();
    }
    for (kind, count) in met.0 {
        *found.0.entry(kind).or_default() += count;
    }
    // What cannot be read back is refused when it is checked; it never goes in as it was.
    serde_json::from_value(value).unwrap_or(clean)
}

/// The predicate of a statement and the text that it says of it.
fn said(statement: &mut Statement) -> Option<(String, &mut String)> {
    match statement {
        Statement::Holds(Holds { predicate, object: Object::Literal(text), .. }) => Some((predicate.to_string(), text)),
        Statement::NeverHeld { predicate, object: Some(Object::Literal(text)), .. }
        | Statement::Ends { predicate, object: Some(Object::Literal(text)), .. } => Some((predicate.to_string(), text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;
    use skymem_core::{Role, SessionId};
    use sqlx::PgPool;

    use super::*;
    use crate::testing::TestMemory;
    use crate::{Content, Conversation, HearRequest, HeardTurn, PageRequest};

    const KEY: &str = "AKIAQ7RZN4XWLKTBM2PD";

    #[test]
    fn only_bytes_that_are_written_out_are_passed_over() {
        let cleaned = |text: &str| {
            let mut value = json!({ "type": "text", "text": text, "password": text });
            clean_value(&mut value, &mut SecretsFound::default());
            (value["text"] != text, value["password"] != text)
        };

        assert_eq!(cleaned("data:image/png;base64,iVBORw0KGgo="), (false, false));
        for said in [
            format!("data: the key is {KEY}"),
            format!("data:{KEY};base64,aGk="),
            format!("data:text/plain;base64,aGk= and {KEY}"),
            format!("data:,{KEY}"),
        ] {
            assert_eq!(cleaned(&said), (true, true), "{said}");
        }
    }

    #[test]
    fn a_turn_is_cleaned_in_its_text_and_in_its_parts_and_counted_once() {
        let said = format!("the key is {KEY}");
        let parts = json!([{"type": "text", "text": said}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AKIA"}}]);
        let turn = NewTurn { parts: Some(parts), ..NewTurn::new(Role::User, said) };
        let mut found = SecretsFound::default();

        let clean = clean(&turn, &mut found).unwrap();

        assert_eq!(clean.text, "the key is [secret: aws access key]");
        assert_eq!(clean.parts.as_ref().unwrap()[0]["text"], "the key is [secret: aws access key]");
        assert!(!clean.parts.unwrap().to_string().contains(KEY));
        assert_eq!(found.0, BTreeMap::from([("aws access key", 1)]));
    }

    #[test]
    fn what_stands_under_the_name_of_a_password_is_one() {
        let mut value = json!({"login": {"user": "anna", "password": "hunter2!", "hint": "the dog"}});
        let mut met = SecretsFound::default();

        clean_value(&mut value, &mut met);

        assert_eq!(value, json!({"login": {"user": "anna", "password": "[secret: password]", "hint": "the dog"}}));
    }

    #[test]
    fn a_secret_within_a_text_takes_nothing_else_with_it() {
        let mut value = json!({"type": "text", "text": format!("my token is {KEY}, keep it")});

        clean_value(&mut value, &mut SecretsFound::default());

        assert_eq!(value["text"], "my token is [secret: aws access key], keep it");
    }

    #[sqlx::test(migrations = false)]
    async fn a_chat_with_a_secret_is_known_again_by_no_hash_of_the_secret(db: PgPool) {
        let test = TestMemory::start(db, Vec::new()).await;
        let session: SessionId = "a".parse().unwrap();
        let turn =
            |role, text: &str| HeardTurn { role, speaker: None, content: Content::Text(text.into()), call: None };
        let conversation = Conversation {
            user: test.user,
            session: Some(session.clone()),
            turns: vec![turn(Role::User, &format!("my key is {KEY}"))],
        };
        let request = HearRequest {
            conversation: conversation.clone(),
            placed: None,
            answer: turn(Role::Assistant, &format!("So it is {KEY}.")),
            collection: None,
            memory: None,
            most_turns: 10,
            passed_by: HashSet::new(),
        };

        test.memory.hear(request.clone()).await.unwrap();
        test.memory.hear(request).await.unwrap();

        let turns = test.memory.turns(test.user, &session, &PageRequest::default()).await.unwrap().unwrap().items;
        let texts: Vec<&str> = turns.iter().map(|turn| turn.turn.text.as_str()).collect();
        assert_eq!(texts, ["my key is [secret: aws access key]", "So it is [secret: aws access key]."]);
        assert_ne!(turns[0].client_id, conversation.marks().pop(), "a hash of the secret could be guessed from");
    }

    #[test]
    fn a_clean_turn_is_left_alone() {
        let turn = NewTurn::new(Role::User, "my dog is Rex");
        assert_eq!(clean(&turn, &mut SecretsFound::default()), None);
    }
}
