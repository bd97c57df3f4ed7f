//! What somebody likes best, plays, is of: in either language.

use regex::Captures;
use skymem_core::facts::Object;

use super::names;
use super::phrases;
use super::rules::{Takes, Teller, part, value};
use super::text::HIDDEN;
use super::words::{GAMES, NO_PHRASES};

/// "My favourite colour is teal", "mein Lieblingsessen ist Lasagne".
pub(super) fn favourite(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let what = part(found, "what").to_lowercase();
    let what = match what.as_str() {
        "color" | "farbe" => "colour",
        "movie" => "film",
        "essen" | "gericht" | "speise" => "food",
        "getränk" => "drink",
        "buch" => "book",
        "serie" => "series",
        "musik" => "music",
        "lied" => "song",
        "tier" => "animal",
        "stadt" => "city",
        "spiel" => "game",
        "sportart" => "sport",
        "fach" => "subject",
        "thing" | "part" | "way" | "one" | "things" | "moment" => return,
        what => what,
    };
    teller.values(&format!("favourite_{}", what.replace(' ', "_")), Takes::Phrases, value(found), false);
}

/// "My blood type is A+", "meine Schuhgröße ist 43".
pub(super) fn attribute(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let what = part(found, "what").to_lowercase().replace(' ', "_");
    let what = match what.as_str() {
        "blutgruppe" => "blood_type",
        "schuhgröße" => "shoe_size",
        "körpergröße" => "height",
        "staatsangehörigkeit" => "nationality",
        "zeitzone" | "time_zone" => "timezone",
        "spitzname" => "nickname",
        "kennzeichen" | "licence_plate" => "license_plate",
        what => what,
    };
    let words = value(found).split([',', ';']).next().unwrap_or_default().trim_end_matches(['.', '!']);
    let first = words.split_whitespace().next().unwrap_or_default();
    if !NO_PHRASES.has(first) && (1..=5).contains(&words.split_whitespace().count()) && !words.contains(HIDDEN) {
        teller.holds(what, Object::Literal(words.to_owned()), false);
    }
}

pub(super) fn prefers(teller: &mut Teller<'_>, found: &Captures<'_>) {
    if let Some(preferred) = phrases::preference(value(found)) {
        teller.holds("prefers", Object::Literal(preferred), false);
    }
}

/// Instruments and sports; elsewhere "to play" is a game of words.
pub(super) fn plays(teller: &mut Teller<'_>, found: &Captures<'_>) {
    for phrase in phrases::phrases(names::without_article(value(found))) {
        let played: Vec<&str> = phrase.split_whitespace().take_while(|word| GAMES.has(word)).collect();
        if !played.is_empty() {
            teller.holds("plays", Object::Literal(played.join(" ")), false);
        }
    }
}

/// Against what somebody is allergic; of a compound its beginning: "Nussallergie".
pub(super) fn allergic(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let mut letters = value(found).chars();
    let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    teller.values("allergic_to", Takes::Phrases, &capital, false);
}
