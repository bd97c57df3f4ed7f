//! Who talks, in which conversation, and what memory may do: out of headers and members that clients send.

use actix_web::HttpRequest;
use actix_web::http::header::{self, HeaderMap};
use serde_json::Value;
use sha2::{Digest, Sha256};
use skymem_core::{Collection, SessionId, UserId, UserName};
use skymem_engine::{Memory, MemoryMode, Scope};

use super::request::About;
use super::settings::Identities;
use crate::auth::{self, Door, Principal};
use crate::error::{ApiError, Kind};

/// Carries this server's key where `Authorization` carries the upstream's.
const KEY: &str = "x-memory-key";

/// Whose key a request comes with.
pub(crate) async fn identify(
    door: &Door,
    memory: &Memory,
    request: &HttpRequest,
    pass_authorization: bool,
) -> Result<Principal, ApiError> {
    let presented = presented(request.headers(), pass_authorization);
    if presented.is_none() && pass_authorization && door.without_key.is_none() {
        let detail = "send this server's key in the header X-Memory-Key (Authorization goes to the upstream); \
                      `skymem key create` makes one";
        return Err(ApiError::new(Kind::Unauthenticated, detail));
    }
    auth::identify_by(door, memory, request, presented).await
}

/// Who most likely comes with this request, and is let in: who did lately. For whom they act is not looked at.
pub(crate) fn most_likely(door: &Door, request: &HttpRequest, pass_authorization: bool) -> Option<Principal> {
    let lately = || door.keys.lately(presented(request.headers(), pass_authorization)?).map(Principal::with_key);
    door.without_key.clone().or_else(lately)
}

/// The key of this server that a request comes with.
fn presented(headers: &HeaderMap, pass_authorization: bool) -> Option<&str> {
    let own = text(headers, KEY);
    let bearer = text(headers, header::AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    // What is the upstream's is not tried as a key of this server: it would count as a wrong one.
    let bearer = bearer.filter(|key| !pass_authorization || key.starts_with("skm_"));
    own.or(bearer)
}

/// The person that a client names in its own way, if it names one; first match wins.
pub(crate) fn person(headers: &HeaderMap, about: &About) -> Option<String> {
    const HEADERS: [&str; 5] = [
        "x-litellm-customer-id",
        "x-litellm-end-user-id",
        "x-openwebui-user-id",
        "x-openwebui-user-email",
        "x-sm-user-id",
    ];
    let of_headers = HEADERS.iter().filter_map(|name| text(headers, name)).map(str::to_owned);
    let metadata = about.metadata.as_ref().and_then(|metadata| metadata.get("user_id"));
    let of_body = [about.user.as_ref(), metadata, about.safety_identifier.as_ref(), about.user_id.as_ref()];
    let mut named = of_headers.chain(of_body.into_iter().flatten().filter_map(name_in));
    named.find(|name| !name.trim().is_empty())
}

/// Whose memory a request is about: that of the person a client names, where the key may act for them; else the key's.
///
/// # Errors
///
/// [`Kind::Forbidden`] when there is no such person and none is to be made: nobody gets the memory of another instead.
pub(crate) async fn acting_for(
    who: &Principal,
    person: Option<&str>,
    identities: Identities,
    door: &Door,
    memory: &Memory,
) -> Result<UserId, ApiError> {
    let Some(person) = person else { return Ok(who.user) };
    // A key that is no admin's has one memory.
    if who.may(Scope::Admin).is_err() || identities == Identities::Ignored {
        return Ok(who.user);
    }
    let name = user_name(person)?;
    let found = async {
        match identities {
            Identities::Made => Ok(Some(memory.ensure_user(&name).await?.id)),
            _ => Ok(memory.user_named(&name).await?.map(|user| user.id)),
        }
    };
    let user = door.users.or(name.as_str(), true, found).await?;
    user.ok_or_else(|| {
        let detail = format!("there is no user {name} here: make them with POST /v1/users, or set proxy.identities");
        ApiError::new(Kind::Forbidden, detail)
    })
}

/// The user that a person is here: of that name where it can be one, else of one made of it, the same each time.
fn user_name(person: &str) -> Result<UserName, ApiError> {
    const LONGEST_STEM: usize = 40;
    if let Ok(name) = person.parse() {
        return Ok(name);
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let stem: String = person.trim().chars().map(plain).take(LONGEST_STEM).collect();
    let digest: String = Sha256::digest(person).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{}-{digest}", stem.trim_matches('-'));
    Ok(name.trim_start_matches('-').parse()?)
}

/// The session that a client names, if it names one; first match wins.
///
/// # Errors
///
/// When `X-Memory-Session` is none; what others mean otherwise is left to them.
pub(crate) fn session(headers: &HeaderMap, about: &About) -> Result<Option<SessionId>, ApiError> {
    const HEADERS: [&str; 5] = [
        "x-openwebui-chat-id",
        "x-conversation-id",
        "x-librechat-conversation-id",
        "x-sm-conversation-id",
        "x-session-id",
    ];
    if let Some(value) = headers.get("x-memory-session") {
        let session = utf8("x-memory-session", value)?.parse();
        return session
            .map(Some)
            .map_err(|bad: skymem_core::conversation::BadName| ApiError::invalid("x-memory-session", bad.0));
    }
    let of_headers = HEADERS.iter().filter_map(|name| text(headers, name)).map(str::to_owned);
    let of_metadata = |name: &str| about.metadata.as_ref().and_then(|metadata| metadata.get(name));
    let conversation = about.conversation.as_ref().map(|it| it.get("id").unwrap_or(it));
    let of_body = [of_metadata("session_id"), of_metadata("conversation_id"), conversation, about.run_id.as_ref()];
    let mut named = of_headers.chain(of_body.into_iter().flatten().filter_map(name_in));
    Ok(named.find_map(|name| name.parse().ok()))
}

/// What a client wants of memory for one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// What memory may do.
    pub(crate) mode: Option<MemoryMode>,
    /// The shelf that is read and written; all are read, and the session's own is written, when it is not said.
    pub(crate) collection: Option<Collection>,
    /// What memory may add, in tokens.
    pub(crate) budget_tokens: Option<usize>,
}

impl Switches {
    /// By headers, then by `metadata.memory`, then by the ending of the model's name.
    ///
    /// # Errors
    ///
    /// For a value that cannot be; says where it stands and what it may be.
    pub(crate) fn read(headers: &HeaderMap, about: &About, by_model: Option<MemoryMode>) -> Result<Self, ApiError> {
        let of_headers = Self {
            mode: parsed(headers, "x-memory")?,
            collection: parsed(headers, "x-memory-collection")?,
            budget_tokens: match headers.get("x-memory-budget") {
                Some(value) => Some(budget("x-memory-budget", utf8("x-memory-budget", value)?.trim().parse().ok())?),
                None => None,
            },
        };
        let of_body = match about.metadata.as_ref().and_then(|metadata| metadata.get("memory")) {
            None | Some(Value::Null) => Self::default(),
            Some(Value::String(mode)) => Self { mode: Some(word("metadata.memory", mode)?), ..Self::default() },
            Some(Value::Object(wanted)) => Self {
                mode: text_in(wanted, "mode")?.map(|mode| word("metadata.memory.mode", mode)).transpose()?,
                collection: text_in(wanted, "collection")?
                    .map(|name| word("metadata.memory.collection", name))
                    .transpose()?,
                budget_tokens: match wanted.get("budget") {
                    None | Some(Value::Null) => None,
                    Some(value) => {
                        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
                        Some(budget("metadata.memory.budget", number)?)
                    }
                },
            },
            Some(_) => {
                return Err(ApiError::invalid(
                    "metadata.memory",
                    "is off, read, write, readwrite, or an object with mode, collection and budget",
                ));
            }
        };
        Ok(Self {
            mode: of_headers.mode.or(of_body.mode).or(by_model),
            collection: of_headers.collection.or(of_body.collection),
            budget_tokens: of_headers.budget_tokens.or(of_body.budget_tokens),
        })
    }
}

/// The ending of a model's name by which a client that can set nothing else says what memory may do.
pub(crate) fn suffix(model: &str) -> Option<(&'static str, MemoryMode)> {
    const SUFFIXES: [(&str, MemoryMode); 5] = [
        (":nomem", MemoryMode::Off),
        (":mem-off", MemoryMode::Off),
        (":mem-read", MemoryMode::Read),
        (":mem-write", MemoryMode::Write),
        (":mem-readwrite", MemoryMode::ReadWrite),
    ];
    SUFFIXES.into_iter().find(|(suffix, _)| model.len() > suffix.len() && model.ends_with(suffix))
}

const MOST_BUDGET: u64 = 10_000_000;

fn budget(place: &str, tokens: Option<u64>) -> Result<usize, ApiError> {
    match tokens {
        Some(tokens @ 1..=MOST_BUDGET) => Ok(usize::try_from(tokens).unwrap_or(usize::MAX)),
        _ => Err(ApiError::invalid(place, format!("is a whole number of tokens from 1 to {MOST_BUDGET}"))),
    }
}

fn parsed<T: std::str::FromStr<Err = skymem_core::conversation::BadName>>(
    headers: &HeaderMap,
    name: &'static str,
) -> Result<Option<T>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    word(name, utf8(name, value)?).map(Some)
}

fn word<T: std::str::FromStr<Err = skymem_core::conversation::BadName>>(
    place: &str,
    text: &str,
) -> Result<T, ApiError> {
    text.trim().parse().map_err(|bad: skymem_core::conversation::BadName| ApiError::invalid(place, bad.0))
}

fn utf8<'a>(name: &str, value: &'a header::HeaderValue) -> Result<&'a str, ApiError> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| ApiError::invalid(name, "is not UTF-8"))
}

fn text_in<'a>(wanted: &'a serde_json::Map<String, Value>, name: &str) -> Result<Option<&'a str>, ApiError> {
    match wanted.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ApiError::invalid(format!("metadata.memory.{name}"), "is a text")),
    }
}

/// A header that says something.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    std::str::from_utf8(headers.get(name)?.as_bytes()).ok().map(str::trim).filter(|text| !text.is_empty())
}

/// A name, also when it came as a number.
fn name_in(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn about(body: Value) -> About {
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn the_first_who_names_a_person_counts() {
        let who = |pairs: &[(&'static str, &'static str)], body| person(&headers(pairs), &about(body));
        assert_eq!(who(&[], json!({})), None);
        assert_eq!(who(&[], json!({ "user": "anna", "safety_identifier": "x" })).as_deref(), Some("anna"));
        assert_eq!(who(&[], json!({ "metadata": { "user_id": 7 } })).as_deref(), Some("7"));
        assert_eq!(who(&[], json!({ "user": "", "user_id": "b" })).as_deref(), Some("b"));
        assert_eq!(who(&[], json!({ "user": { "a": 1 }, "metadata": "x" })), None);
        let both = [("x-openwebui-user-email", "a@b"), ("x-openwebui-user-id", "u1")];
        assert_eq!(who(&both, json!({ "user": "anna" })).as_deref(), Some("u1"));
    }

    #[test]
    fn whatever_a_person_is_called_there_is_a_user_of_a_name_of_their_own() {
        assert_eq!(user_name("anna").unwrap().as_str(), "anna");
        let (small, large) = (user_name("anna@example.org").unwrap(), user_name("Anna@example.org").unwrap());
        assert!(small.as_str().starts_with("anna-example-org-") && small != large);
        for odd in ["../me", "昨天", " ", "@", "-", &"x".repeat(500), "auth0|5f"] {
            assert_eq!(user_name(odd).unwrap(), user_name(odd).unwrap(), "{odd}");
        }
    }

    #[test]
    fn the_first_who_names_a_session_counts_and_ours_must_be_one() {
        let of = |pairs: &[(&'static str, &'static str)], body| {
            session(&headers(pairs), &about(body)).map_err(|error| error.detail().to_owned())
        };
        let named = |name: &str| Ok(Some(name.parse().unwrap()));
        assert_eq!(of(&[], json!({})), Ok(None));
        assert_eq!(of(&[("x-memory-session", "a"), ("x-session-id", "b")], json!({})), named("a"));
        assert_eq!(of(&[("x-openwebui-chat-id", "c")], json!({ "run_id": "r" })), named("c"));
        assert_eq!(of(&[], json!({ "metadata": { "conversation_id": "d" }, "run_id": "r" })), named("d"));
        assert_eq!(of(&[], json!({ "conversation": { "id": "e" } })), named("e"));
        assert_eq!(
            of(&[], json!({ "conversation": "a\nb", "run_id": 7 })),
            named("7"),
            "what is no name is passed over"
        );
        assert!(of(&[("x-memory-session", "")], json!({})).unwrap_err().contains("must not be empty"));
    }

    #[test]
    fn switches_are_read_in_their_order() {
        let read = |pairs: &[(&'static str, &'static str)], body, by_model| {
            Switches::read(&headers(pairs), &about(body), by_model).map_err(|error| error.detail().to_owned())
        };
        let object = json!({ "metadata": { "memory": { "mode": "read", "collection": "work", "budget": "900" } } });
        let all = read(&[("x-memory", "write"), ("x-memory-budget", "50")], object, Some(MemoryMode::Off)).unwrap();
        assert_eq!((all.mode, all.budget_tokens), (Some(MemoryMode::Write), Some(50)));
        assert_eq!(all.collection.unwrap().as_str(), "work");
        let off = read(&[], json!({ "metadata": { "memory": "off" } }), None).unwrap();
        assert_eq!(off.mode, Some(MemoryMode::Off));
        assert_eq!(read(&[], json!({}), Some(MemoryMode::Off)).unwrap().mode, Some(MemoryMode::Off));
        assert_eq!(read(&[], json!({ "metadata": { "memory": null } }), None).unwrap(), Switches::default());

        for (pairs, body, fault) in [
            (vec![("x-memory", "on")], json!({}), "x-memory: memory is one of"),
            (vec![("x-memory-collection", "A B")], json!({}), "x-memory-collection: a collection's name"),
            (vec![("x-memory-budget", "0")], json!({}), "x-memory-budget: is a whole number"),
            (vec![("x-memory-budget", "many")], json!({}), "x-memory-budget: is a whole number"),
            (vec![], json!({ "metadata": { "memory": 7 } }), "metadata.memory: is off"),
            (vec![], json!({ "metadata": { "memory": "yes" } }), "metadata.memory: memory is one of"),
            (vec![], json!({ "metadata": { "memory": { "mode": 1 } } }), "metadata.memory.mode: is a text"),
            (vec![], json!({ "metadata": { "memory": { "budget": -1 } } }), "metadata.memory.budget: is a whole"),
        ] {
            let told = read(&pairs, body.clone(), None).unwrap_err();
            assert!(told.starts_with(fault), "{body}: {told}");
        }
    }

    #[test]
    fn a_model_s_ending_is_ours_only_when_it_says_what_memory_may_do() {
        assert_eq!(suffix("llama3:nomem"), Some((":nomem", MemoryMode::Off)));
        assert_eq!(suffix("llama3:8b:mem-read"), Some((":mem-read", MemoryMode::Read)));
        for model in ["llama3:8b", ":nomem", "nomem", "llama3:nomem:8b"] {
            assert_eq!(suffix(model), None, "{model}");
        }
    }
}
