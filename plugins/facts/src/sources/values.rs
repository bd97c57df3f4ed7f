//! Predicates and values as people and models write them, and as facts have them.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use skymem_core::facts::{LONGEST_LITERAL, Object, Predicate};

/// What else a predicate is called. Of two words for one thing, a question would find only half.
const CALLED: &[(&str, &str)] = &[
    ("lives_in", "lives|live_in|living_in|lives_at|resides_in|residence|home|city|wohnt_in|wohnt|wohnort|lebt_in"),
    (
        "works_at",
        "works_for|work_at|work_for|working_at|employer|employed_by|employed_at|company|arbeitet_bei|arbeitgeber|firma",
    ),
    ("job_title", "job|occupation|profession|position|works_as|work_as|title|role|beruf|arbeitet_als"),
    ("married_to", "spouse|wife|husband|is_married_to|married|frau|mann|verheiratet_mit"),
    ("partner", "girlfriend|boyfriend|engaged_to|freundin|freund"),
    ("has_pet", "pet|pets|owns_pet|haustier"),
    ("has_child", "child|children|kid|kids|kind|kinder"),
    ("son", "has_son|sohn"),
    ("daughter", "has_daughter|tochter"),
    ("sister", "has_sister|schwester"),
    ("brother", "has_brother|bruder"),
    ("mother", "has_mother|mutter"),
    ("father", "has_father|vater"),
    ("manager", "boss|has_manager|reports_to|chef|chefin"),
    ("name", "is_called|called|named|is_named|has_name|full_name|first_name|heißt"),
    ("age", "years_old|is_aged|alter"),
    ("born_on", "born|date_of_birth|birth_date|birthdate|dob|geboren_am|geburtsdatum"),
    ("birthday", "geburtstag"),
    ("born_in", "birthplace|place_of_birth|geburtsort"),
    ("comes_from", "from|is_from|origin|hometown|originates_from|stammt_aus|kommt_aus|herkunft"),
    ("email", "e_mail|mail|email_address|e_mail_address|has_email"),
    ("phone", "telephone|phone_number|mobile|mobile_number|has_phone|telefon|handy|handynummer"),
    ("address", "lives_at_address|anschrift|adresse"),
    (
        "speaks",
        "speaks_language|languages|spoken_language|language_spoken|native_language|spricht|sprachen|muttersprache",
    ),
    ("allergic_to", "allergy|allergies|is_allergic_to|has_allergy|allergisch_gegen|allergie"),
    ("likes", "like|loves|love|enjoys|is_interested_in|interested_in|interest|interests|mag|liebt"),
    ("dislikes", "dislike|hates|hate|hasst"),
    ("prefers", "prefer|preference|bevorzugt"),
    ("studies", "studies_subject|major|studiert"),
    ("studied_at", "graduated_from|alma_mater|attended"),
    ("drives", "drives_car|car|fährt|auto"),
    ("owns", "own|has|possesses|besitzt"),
    ("plays", "plays_instrument|instrument|spielt"),
    ("uses", "use|using|used|uses_technology|uses_tool|tool|tools|stack|runs_on|nutzt|verwendet|benutzt|nutzen"),
    ("written_in", "implemented_in|programming_language|geschrieben_in"),
    ("depends_on", "depends|requires|relies_on|dependency|dependencies|hängt_ab_von|hängt_von_ab"),
    ("part_of", "belongs_to|is_part_of|component_of|teil_von|gehört_zu"),
    ("caused_by", "cause|was_caused_by|is_caused_by|due_to|root_cause|introduced_by|verursacht_durch|ursache"),
    ("based_in", "headquartered_in|headquarters|sitz|sitz_in"),
    ("works_on", "working_on|arbeitet_an"),
    ("decided", "decision|decides|decided_to|entschieden|entscheidung"),
    ("is_a", "type|kind_of|species|breed|art|ist_ein|ist_eine"),
    ("note", "notes|notiz|comment|bemerkung"),
    ("mentions", "mention|erwähnt"),
];

/// Predicates whose value is nothing to walk to.
const LITERAL: &[&str] = &[
    "name",
    "age",
    "born_on",
    "birthday",
    "email",
    "phone",
    "address",
    "job_title",
    "diet",
    "is_a",
    "note",
    "status",
    "deadline",
    "version",
    "likes",
    "dislikes",
    "prefers",
    "allergic_to",
    "avoids",
    "hobby",
    "plays",
    "decided",
    "surname",
    "nickname",
    "gender",
    "nationality",
    "timezone",
    "blood_type",
    "shoe_size",
    "height",
    "weight",
    "studies",
    "studied",
    "pronouns",
    "license_plate",
    "wants",
    "description",
];

/// The predicate that `words` are: `worksFor`, `works for` and `employer` are all `works_at`.
pub(super) fn predicate(words: &str) -> Option<Predicate> {
    let mut spaced = String::with_capacity(words.len() + 4);
    let mut before = ' ';
    for c in words.trim().chars() {
        if c.is_uppercase() && before.is_lowercase() {
            spaced.push('_');
        }
        // What else stands between words in a name.
        spaced.push(if matches!(c, '/' | '.' | ':') { '_' } else { c });
        before = c;
    }
    let written: Predicate = spaced.parse().ok()?;
    let favourite = written.as_str().replace("favorite_", "favourite_").replace("_color", "_colour");
    let known = CALLED.iter().find(|(_, words)| words.split('|').any(|word| word == written.as_str()));
    known.map_or(favourite.as_str(), |(known, _)| known).parse().ok()
}

/// Predicates of which somebody has one value at a time, and causes, of which there are few: what is said instead of one was
/// a mistake. Of others it may be one more.
const ONE_VALUE: &[&str] = &[
    "name",
    "age",
    "born_on",
    "birthday",
    "born_in",
    "comes_from",
    "lives_in",
    "address",
    "based_in",
    "email",
    "phone",
    "works_at",
    "job_title",
    "studies_at",
    "married_to",
    "partner",
    "engaged_to",
    "mother",
    "father",
    "manager",
    "dentist",
    "caused_by",
    "nationality",
    "located_in",
    "timezone",
];

/// Whether what is said instead of a value takes it back.
pub(super) fn has_one_value(predicate: &str) -> bool {
    ONE_VALUE.contains(&predicate) || predicate.starts_with("favourite_")
}

/// Whether a predicate is one that patterns and people use: one of the names above.
pub(super) fn is_known(predicate: &Predicate) -> bool {
    CALLED.iter().any(|(known, _)| *known == predicate.as_str()) || LITERAL.contains(&predicate.as_str())
}

/// `value` as the value of `predicate`: an entity when it is the name of something.
pub(super) fn object(predicate: &Predicate, value: &str) -> Option<Object> {
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = value.trim_matches(|c: char| matches!(c, '"' | '“' | '”' | '„'));
    if value.is_empty() || value.chars().count() > LONGEST_LITERAL || value.chars().any(char::is_control) {
        return None;
    }
    let predicate = predicate.as_str();
    let literal = LITERAL.contains(&predicate)
        || predicate.starts_with("favourite_")
        || value.split_whitespace().count() > 8
        || value.contains('@')
        || value.contains("://")
        || value.chars().all(|c| !c.is_alphabetic());
    match value.parse() {
        Ok(name) if !literal => Some(Object::Entity(name)),
        _ => Some(Object::Literal(value.to_owned())),
    }
}

/// The first moment of a date as it is written in files and answers: `2024`, `2024-05`, `2024-05-03`, or RFC 3339.
pub(super) fn moment(text: &str) -> Option<DateTime<Utc>> {
    let text = text.trim();
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Some(moment.with_timezone(&Utc));
    }
    let digits = |part: &str, count: usize| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('-').collect();
    let (year, month, day) = match parts.as_slice() {
        [year] if digits(year, 4) => (year, "1", "1"),
        [year, month] if digits(year, 4) && digits(month, 2) => (year, *month, "1"),
        [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2) => (year, *month, *day),
        _ => return None,
    };
    let date = NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)?;
    // No fact is older than the first year.
    (date >= NaiveDate::from_ymd_opt(1, 1, 1)?).then(|| date.and_time(NaiveTime::MIN).and_utc())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::predicates::Predicates;

    #[test]
    fn a_predicate_has_one_name() {
        for (words, expected) in [
            ("works for", "works_at"),
            ("worksFor", "works_at"),
            ("Employer", "works_at"),
            ("lives-in", "lives_in"),
            ("wohnt in", "lives_in"),
            ("favorite color", "favourite_colour"),
            ("mentored_by", "mentored_by"),
        ] {
            assert_eq!(predicate(words).map(String::from).as_deref(), Some(expected), "{words:?}");
        }
        assert_eq!(predicate(""), None);
        assert_eq!(predicate("!?"), None);
    }

    #[test]
    fn names_are_entities_and_values_are_literals() {
        let of = |words: &str, value: &str| object(&predicate(words).unwrap(), value);
        assert_eq!(of("lives_in", " New  York "), Some(Object::Entity("New York".parse().unwrap())));
        assert_eq!(of("age", "34"), Some(Object::Literal("34".into())));
        assert_eq!(of("uses", "2024"), Some(Object::Literal("2024".into())));
        assert_eq!(of("contact", "a@b.c"), Some(Object::Literal("a@b.c".into())));
        assert_eq!(of("uses", "\"Rust\""), Some(Object::Entity("Rust".parse().unwrap())));
        assert_eq!(of("uses", " "), None);
        assert_eq!(of("note", &"x".repeat(LONGEST_LITERAL + 1)), None);
    }

    #[test]
    fn what_is_taken_back_has_one_value_in_the_layer_too() {
        let known = Predicates::of(&BTreeMap::new()).unwrap();
        for predicate in ONE_VALUE.iter().filter(|predicate| **predicate != "caused_by") {
            assert!(known.traits(predicate).single, "{predicate}");
        }
    }

    #[test]
    fn dates_are_read_as_far_as_they_go() {
        let day = |text: &str| moment(text).map(|moment| moment.to_rfc3339());
        assert_eq!(day("2024").as_deref(), Some("2024-01-01T00:00:00+00:00"));
        assert_eq!(day("2024-05").as_deref(), Some("2024-05-01T00:00:00+00:00"));
        assert_eq!(day(" 2024-05-03 ").as_deref(), Some("2024-05-03T00:00:00+00:00"));
        assert_eq!(day("2024-05-03T10:00:00+02:00").as_deref(), Some("2024-05-03T08:00:00+00:00"));
        for text in ["", "may", "24", "2024-13", "2024-02-30", "2024-5-3", "0000", "-"] {
            assert_eq!(moment(text), None, "{text:?}");
        }
    }
}
