//! Telling memory that something holds: an entry of the journal.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpResponse, post};
use serde::de::{self, Deserializer, IgnoredAny};
use serde::{Deserialize, Serialize};
use skymem_core::conversation::BadName;
use skymem_core::facts::{EntityName, Holds, Object, Predicate, Statement};
use skymem_core::{Collection, SessionId, Source};
use skymem_engine::{MOST_STATEMENTS, Memory, Recorded, StateRequest};
use utoipa::ToSchema;

use crate::api::secrets::SecretsAnswer;
use crate::api::turns::TurnFateAnswer;
use crate::auth::{Principal, Writer};
use crate::body::{Text, parse_object};
use crate::error::ApiError;
use crate::wire::Moment;

/// Tells memory that something holds, and answers once that is safe. One fact, or `{"facts": [...]}`.
///
/// The layer of facts learns of it soon after. Idempotent: the same told again in a session is one entry, unless
/// something told in between says otherwise. All or nothing: when one fact cannot be accepted, none is told.
#[utoipa::path(
    operation_id = "tell_facts", tag = "facts", security(("key" = ["write"])),
    request_body(content = FactsBody, description = "One fact, or several"),
    responses(
        (status = 201, description = "Written down, at least one for the first time", body = ToldAnswer),
        (status = 200, description = "All were told before, or are not kept: `fate` says which", body = ToldAnswer),
    ),
)]
#[post("/facts")]
pub(crate) async fn tell(who: Writer, memory: Data<Memory>, body: Text) -> Result<HttpResponse, ApiError> {
    let request = FactsBody::read(&body)?.into_request(&who)?;
    Ok(ToldAnswer::from(memory.state(request).await?).respond())
}

/// One fact, or several.
#[derive(Debug, ToSchema)]
#[schema(title = "FactsBody")]
#[serde(untagged)]
pub(crate) enum FactsBody {
    /// One fact.
    One(Box<OneFactBody>),
    /// Several facts, told in this order.
    Many(ManyFactsBody),
}

impl FactsBody {
    /// Told apart by `facts` before anything else, so that a fault is reported at its field.
    fn read(body: &Text) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        struct Peek {
            facts: Option<IgnoredAny>,
        }
        let json = body.as_str();
        let has_facts = serde_json::from_str::<Peek>(json).is_ok_and(|peek| peek.facts.is_some());
        if has_facts {
            parse_object(json).map(Self::Many)
        } else {
            parse_object(json).map(|one| Self::One(Box::new(one)))
        }
    }

    fn into_request(self, who: &Principal) -> Result<StateRequest, ApiError> {
        let (facts, session, collection, source, occurred_at, place) = match self {
            FactsBody::One(one) => {
                let OneFactBody { session, collection, source, occurred_at, .. } = *one;
                let fact = FactBody {
                    subject: one.subject,
                    predicate: one.predicate,
                    object: one.object,
                    from: one.from,
                    until: one.until,
                    confidence: one.confidence,
                    corrects: one.corrects,
                };
                (vec![fact], session, collection, source, occurred_at, false)
            }
            FactsBody::Many(many) => {
                if many.facts.is_empty() || many.facts.len() > MOST_STATEMENTS {
                    return Err(ApiError::invalid("facts", format!("holds 1 to {MOST_STATEMENTS} facts")));
                }
                (many.facts, many.session, many.collection, many.source, many.occurred_at, true)
            }
        };
        let statements: Vec<Statement> = facts.into_iter().map(Statement::from).collect();
        for (index, statement) in statements.iter().enumerate() {
            statement.check().map_err(|bad| {
                let field = if place { format!("facts[{index}].{}", bad.field) } else { bad.field.to_owned() };
                ApiError::invalid(field, bad.reason)
            })?;
        }
        let occurred_at = occurred_at.map(|moment| moment.0);
        Ok(StateRequest { user: who.user, statements, session, collection, source, occurred_at })
    }
}

/// One fact, and where it is told.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schema(example = json!({
    "subject": "Anna", "predicate": "lives_in", "object": "Bremen", "from": "2026-05-01T00:00:00+02:00",
}))]
pub(crate) struct OneFactBody {
    /// Of whom or what: a name. `user` is you.
    #[schema(value_type = String, max_length = 200)]
    subject: EntityName,
    /// What holds: letters, digits and `_`; `Lives in` is taken for `lives_in`.
    #[schema(value_type = String, max_length = 64)]
    predicate: Predicate,
    /// Its value: the name of another entity, or `{"literal": "1990-05-01"}` for a value that is nothing to walk to.
    object: ObjectBody,
    /// Since when it holds, in RFC 3339 with its zone; absent for no later than now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    from: Option<Moment>,
    /// Until when it held; absent for as far as is known.
    #[schema(value_type = Option<DateTime<Utc>>)]
    until: Option<Moment>,
    /// How sure it is, above 0 to 1.
    #[serde(default = "sure")]
    #[schema(minimum = 0, maximum = 1, default = 1)]
    confidence: f32,
    /// What was last told of the same subject and predicate was a mistake, not a change: this takes its place.
    #[serde(default)]
    corrects: bool,
    /// The session it came up in; absent for `facts`.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// The collection it stands in; absent for the session's own.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Where it comes from; absent for `facts`.
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
    /// When it was said, in RFC 3339 with its zone; absent for now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    occurred_at: Option<Moment>,
}

/// Several facts, told in this order.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct ManyFactsBody {
    /// The facts: 1 to 1,000.
    facts: Vec<FactBody>,
    /// The session they came up in; absent for `facts`.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// The collection they stand in; absent for the session's own.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Where they come from; absent for `facts`.
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
    /// When they were said, in RFC 3339 with its zone; absent for now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    occurred_at: Option<Moment>,
}

/// A fact among others.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct FactBody {
    /// Of whom or what: a name. `user` is you.
    #[schema(value_type = String, max_length = 200)]
    subject: EntityName,
    /// What holds: letters, digits and `_`; `Lives in` is taken for `lives_in`.
    #[schema(value_type = String, max_length = 64)]
    predicate: Predicate,
    /// Its value: the name of another entity, or `{"literal": "1990-05-01"}` for a value that is nothing to walk to.
    object: ObjectBody,
    /// Since when it holds, in RFC 3339 with its zone; absent for no later than now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    from: Option<Moment>,
    /// Until when it held; absent for as far as is known.
    #[schema(value_type = Option<DateTime<Utc>>)]
    until: Option<Moment>,
    /// How sure it is, above 0 to 1.
    #[serde(default = "sure")]
    #[schema(minimum = 0, maximum = 1, default = 1)]
    confidence: f32,
    /// What was last told of the same subject and predicate was a mistake, not a change: this takes its place.
    #[serde(default)]
    corrects: bool,
}

fn sure() -> f32 {
    1.0
}

impl From<FactBody> for Statement {
    fn from(fact: FactBody) -> Self {
        Statement::Holds(Holds {
            subject: fact.subject,
            predicate: fact.predicate,
            object: fact.object.0,
            from: fact.from.map(|moment| moment.0),
            until: fact.until.map(|moment| moment.0),
            confidence: fact.confidence,
            corrects: fact.corrects,
        })
    }
}

/// The value of a fact that is told.
#[derive(Debug, ToSchema)]
#[schema(value_type = ObjectSchema)]
pub(crate) struct ObjectBody(Object);

/// The name of an entity, `{"entity": "Bremen"}`, or `{"literal": "1990-05-01"}`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `ObjectBody` to readers of the API")]
enum ObjectSchema {
    /// The name of an entity.
    Name(String),
    /// Said outright.
    Outright(ValueSchema),
}

/// An entity, or a value that is nothing to walk to.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes `ObjectBody` to readers of the API")]
enum ValueSchema {
    /// The name of an entity.
    Entity(String),
    /// A date, a number, a phrase: up to 2,000 characters.
    Literal(String),
}

impl<'de> Deserialize<'de> for ObjectBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrValue;

        impl<'de> de::Visitor<'de> for NameOrValue {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an entity, or {\"literal\": \"...\"}")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Object, E> {
                name.parse().map(Object::Entity).map_err(|bad: BadName| E::custom(bad))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Object, A::Error> {
                Object::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(NameOrValue).map(Self)
    }
}

/// What became of what was told.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToldAnswer {
    /// What became of each fact, in the order of the request.
    statements: Vec<TurnFateAnswer>,
    /// What secrets were in them; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<SecretsAnswer>,
}

impl ToldAnswer {
    fn respond(&self) -> HttpResponse {
        let any_new = self.statements.iter().any(TurnFateAnswer::is_new);
        HttpResponse::build(if any_new { StatusCode::CREATED } else { StatusCode::OK }).json(self)
    }
}

impl From<Recorded> for ToldAnswer {
    fn from(recorded: Recorded) -> Self {
        let statements = recorded.turns.into_iter().map(TurnFateAnswer::from).collect();
        Self { statements, secrets: SecretsAnswer::of(recorded.secrets) }
    }
}
