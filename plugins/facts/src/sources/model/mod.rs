//! Facts that a chat model finds in an exchange: what it is asked, and what of its answer is believed.
//!
//! Only what was said itself is material: answers of the assistant are not, or a model's guesses would come back as facts.

mod grounded;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;
use skymem_core::facts::{EntityName, Holds, Object, Statement};
use skymem_core::prompts::{fill, inert, json_object};
use skymem_core::{ChatAnswer, ChatModel, ChatRequest, Exchange, Message, ModelError, Role, Turn};

use self::grounded::Ground;
use super::{Found, values};

const FACTS: &str = include_str!("../prompts/facts.md");
const EXCHANGE: &str = include_str!("../prompts/exchange.md");

/// How often a model is asked for one exchange.
const TRIES: usize = 2;

/// The most characters of an exchange that it is told, and of an answer that it is told again.
const MOST_TOLD: usize = 12_000;
const MOST_REPEATED: usize = 2_000;

/// How many facts of one exchange are asked for, by how much is said in it. Few sizes: model servers prepare each schema once.
const SIZES: [usize; 4] = [4, 8, 16, MOST_FACTS];

/// How many are believed.
const MOST_FACTS: usize = 30;

/// How many bytes hold one fact in the closest list there is ("tea, cod", or a Chinese character with its comma).
const BYTES_OF_A_FACT: usize = 6;

/// How sure a fact is that a model read out of a text.
const CONFIDENCE: f32 = 0.7;

/// Why a model told no facts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// It could not be reached. Worth another try whenever it is there again.
    #[error("the model gave no answer: {0}")]
    Unreachable(String),
    /// It refused: a wrong key, an exchange it does not accept, or the day's tokens are spent. Worth some more tries.
    #[error("the model refused: {0}")]
    Refused(String),
    /// Twice it answered what is not what was asked for. The same question would hardly do better.
    #[error("the model's answer will not do: {0}")]
    Unusable(String),
}

/// The facts that `chat` finds in `exchange`; none, without a question, when nobody said anything in it.
///
/// # Errors
///
/// When the model gave no answer that will do; says whether to try again.
pub(crate) async fn ask(chat: &dyn ChatModel, exchange: &Exchange) -> Result<Vec<Found>, AskError> {
    let said: Vec<&Turn> = exchange.turns.iter().filter(|turn| is_material(turn)).collect();
    let Some(said_at) = said.iter().map(|turn| turn.occurred_at).max() else { return Ok(Vec::new()) };
    let mut question = question(&said, said_at);
    let mut failure = String::new();
    for _ in 0..TRIES {
        let why = match chat.answer(&question).await {
            Ok(answer) => match parse(&answer) {
                Ok(told) => return Ok(believed(told, &said, said_at)),
                Err(why) => {
                    question.messages.push(Message::new(Role::Assistant, beginning(&answer.text, MOST_REPEATED)));
                    let again = format!("That will not do: {why}. Answer once more, with the JSON object alone.");
                    question.messages.push(Message::new(Role::User, again));
                    why
                }
            },
            Err(ModelError::Unusable(why)) => why,
            Err(error @ ModelError::Unreachable { .. }) => return Err(AskError::Unreachable(error.to_string())),
            Err(ModelError::Refused(why)) => return Err(AskError::Refused(why)),
        };
        failure = why;
    }
    Err(AskError::Unusable(failure))
}

/// What people say themselves: the person, and whoever speaks under a name.
fn is_material(turn: &Turn) -> bool {
    (turn.role == Role::User || turn.speaker.is_some()) && turn.text.chars().any(char::is_alphabetic)
}

fn question(said: &[&Turn], said_at: DateTime<Utc>) -> ChatRequest {
    let day = said_at.format("%A, %Y-%m-%d").to_string();
    ChatRequest {
        purpose: "facts",
        messages: vec![
            Message::new(Role::System, fill(FACTS, &[])),
            Message::new(Role::User, fill(EXCHANGE, &[("{day}", &day), ("{turns}", &turns(said))])),
        ],
        temperature: 0.0,
        most_tokens: 1_500,
        schema: Some(schema(most_facts(said))),
    }
}

/// A small model that is let goes on with facts until its tokens are spent: no more than what is said can hold.
fn most_facts(said: &[&Turn]) -> usize {
    let bytes: usize = said.iter().map(|turn| turn.text.len()).sum();
    let fits = |most: &usize| *most * BYTES_OF_A_FACT > bytes;
    SIZES.into_iter().find(fits).unwrap_or(MOST_FACTS)
}

fn schema(most_facts: usize) -> serde_json::Value {
    let text = |most: u32| json!({ "type": "string", "maxLength": most });
    let date = json!({ "type": ["string", "null"], "maxLength": 10 });
    json!({
        "type": "object",
        "properties": {
            "facts": {
                "type": "array",
                "maxItems": most_facts,
                "items": {
                    "type": "object",
                    "properties": {
                        "subject": text(100),
                        "predicate": text(40),
                        "object": text(300),
                        "how": { "type": "string", "enum": ["holds", "ends", "never", "corrects"] },
                        "from": date,
                        "until": date,
                    },
                    "required": ["subject", "predicate", "object", "how", "from", "until"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["facts"],
        "additionalProperties": false,
    })
}

/// A JSON object a line: what is said cannot leave its place.
fn turns(said: &[&Turn]) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        who: &'a str,
        said: &'a str,
    }

    let share = MOST_TOLD / said.len().max(1);
    let line = |turn: &&Turn| {
        let who = inert(turn.speaker.as_deref().unwrap_or(EntityName::SELF));
        serde_json::to_string(&Line { who: &who, said: &inert(beginning(&turn.text, share)) }).ok()
    };
    said.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// The first `most` characters of `text`.
fn beginning(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// What a model told, before anything of it is believed.
#[derive(Debug, Deserialize)]
struct Answer {
    facts: Vec<Told>,
}

#[derive(Debug, Deserialize)]
struct Told {
    subject: String,
    predicate: String,
    object: Value,
    #[serde(default)]
    how: How,
    #[serde(default)]
    from: Option<Value>,
    #[serde(default)]
    until: Option<Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    #[default]
    Holds,
    Ends,
    Never,
    Corrects,
}

/// A text, or a number where a model thinks of one: an age.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(serde_json::Number),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Text(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
        }
    }
}

/// What a model told, when it has the form that was asked for; else why not.
fn parse(answer: &ChatAnswer) -> Result<Answer, String> {
    if !answer.whole {
        return Err("it was cut off".into());
    }
    let Some(json) = json_object(&answer.text) else { return Err("there is no JSON object in it".into()) };
    serde_json::from_str(json).map_err(|error| format!("it is not the JSON that was asked for: {error}"))
}

/// What of an answer is believed: what the turns themselves hold.
fn believed(answer: Answer, said: &[&Turn], said_at: DateTime<Utc>) -> Vec<Found> {
    let ground = Ground::of(said, said_at);
    let mut found: Vec<Found> = Vec::new();
    for told in answer.facts.into_iter().take(MOST_FACTS) {
        let Some(statement) = statement(&told, &ground, said_at) else { continue };
        if statement.check().is_ok() && !found.iter().any(|other| other.statement == statement) {
            found.push(Found { statement, confidence: CONFIDENCE });
        }
    }
    found
}

fn statement(told: &Told, ground: &Ground, said_at: DateTime<Utc>) -> Option<Statement> {
    let subject = ground.subject(&told.subject)?;
    let predicate = values::predicate(&told.predicate)?;
    let value = told.object.text();
    let object = match ground.is_self(&value) {
        // "Anna is married to the user."
        true => Object::Entity(ground.subject(&value)?),
        false if ground.holds(&value) => values::object(&predicate, &value)?,
        false => return None,
    };
    let date = |value: &Option<Value>| {
        let moment = values::moment(&value.as_ref()?.text())?;
        ground.gives(moment).then_some(moment)
    };
    let (from, until) = (date(&told.from), date(&told.until));
    // Nobody knows what will be.
    if from.is_some_and(|from| from > said_at) {
        return None;
    }
    Some(match told.how {
        How::Ends => Statement::Ends { subject, predicate, object: Some(object), at: from.or(until) },
        How::Never => Statement::NeverHeld { subject, predicate, object: Some(object), from: None },
        How::Holds | How::Corrects => {
            let until = until.filter(|until| from.is_none_or(|from| from < *until));
            let corrects = told.how == How::Corrects && values::has_one_value(predicate.as_str());
            let confidence = CONFIDENCE;
            Statement::Holds(Holds { subject, predicate, object, from, until, confidence, corrects })
        }
    })
}

#[cfg(test)]
mod tests;
