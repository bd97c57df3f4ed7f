//! German clauses in the order of an English one: the subject, then the verb, then the rest.

use std::sync::LazyLock;

use regex::Regex;

struct Forms {
    last: Regex,
    first: Regex,
    second: Regex,
}

/// Verbs whose subject may stand behind them.
const VERBS: &str = "wohne|wohn|wohnen|lebe|leben|arbeite|arbeiten|bin|sind|habe|hab|haben|hatte|hatten|heiße|heißen|spreche|sprechen|\
                     nutze|nutzen|benutze|benutzen|verwende|verwenden|mag|mögen|liebe|lieben|hasse|hassen|fahre|fahren|spiele|spielen|\
                     studiere|studieren|komme|kommen|besitze|besitzen|bevorzuge|bevorzugen|esse|trinke|wurde|wurden|war|zog|zogen|wohnte|wohnten|lebte|lebten|arbeitete|arbeiteten";

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    Some(Forms {
        last: Regex::new(&format!("(?i)^(?:dass|weil|da|denn) (?P<subject>ich|wir) (?P<rest>.+) (?P<verb>{VERBS})$"))
            .ok()?,
        first: Regex::new(&format!("(?i)^(?P<verb>{VERBS}) (?P<subject>ich|wir)(?: (?P<rest>.+))?$")).ok()?,
        second: Regex::new(&format!(
            "(?i)^(?P<before>[^\\s,]+(?: [^\\s,]+){{0,5}}?),? (?P<verb>{VERBS}) (?P<subject>ich|wir)\\b ?(?P<rest>.*)$"
        ))
        .ok()?,
    })
});

/// Words in front of a verb that ask or set a condition.
const ASKING: [&str; 22] = [
    "wo", "was", "wie", "wann", "warum", "welche", "welcher", "welches", "welchen", "wer", "wem", "wen", "womit",
    "wohin", "woher", "wieso", "ob", "wenn", "falls", "seitdem", "bevor", "sobald",
];

/// `clause` with its subject first. One that begins with its verb is only turned when something stood before that was taken
/// `away`; else it asks.
pub(super) fn in_order(clause: &str, away: bool) -> String {
    let Some(forms) = FORMS.as_ref() else {
        return clause.to_owned();
    };
    let part = |found: &regex::Captures<'_>, name: &str| {
        found.name(name).map(|part| part.as_str()).unwrap_or_default().trim().to_owned()
    };
    let turned = |found: &regex::Captures<'_>| {
        let [subject, verb, rest, before] = ["subject", "verb", "rest", "before"].map(|name| part(found, name));
        // A participle stays at the end: "habe bei Opel gearbeitet".
        let (rest, last) = match rest.rsplit_once(' ') {
            Some((rest, last)) if last.starts_with(char::is_lowercase) => (rest.to_owned(), last.to_owned()),
            None if rest.starts_with(char::is_lowercase) => (String::new(), rest),
            _ => (rest, String::new()),
        };
        let parts = [subject, verb, rest, before, last];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    if let Some(found) = forms.last.captures(clause) {
        return turned(&found);
    }
    if let Some(found) = forms.first.captures(clause).filter(|_| away) {
        return turned(&found);
    }
    match forms.second.captures(clause) {
        Some(found) if !asks(&part(&found, "before")) => turned(&found),
        _ => clause.to_owned(),
    }
}

/// Whether what stands before a verb asks, sets a condition, or has a subject of its own.
fn asks(before: &str) -> bool {
    let mut words = before.split_whitespace().map(str::to_lowercase);
    let first = words.next().unwrap_or_default();
    let subject = |word: &str| matches!(word, "ich" | "wir" | "i" | "we");
    ASKING.contains(&first.as_str()) || subject(&first) || words.any(|word| subject(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_comes_first() {
        for (clause, expected) in [
            ("In Bremen wohne ich", "ich wohne In Bremen"),
            ("bei Opel habe ich gearbeitet", "ich habe bei Opel gearbeitet"),
            ("dass ich in Kiel wohne", "ich wohne in Kiel"),
            ("weil ich nach Kiel gezogen bin", "ich bin nach Kiel gezogen"),
            ("ich wohne in Kiel", "ich wohne in Kiel"),
            ("wo wohne ich", "wo wohne ich"),
            ("wenn in Kiel wohne ich", "wenn in Kiel wohne ich"),
            ("Ich weiß wo ich wohne", "Ich weiß wo ich wohne"),
        ] {
            assert_eq!(in_order(clause, false), expected);
        }
    }

    #[test]
    fn a_verb_first_asks_unless_something_stood_before_it() {
        assert_eq!(in_order("wohne ich in Kiel", false), "wohne ich in Kiel");
        assert_eq!(in_order("wohne ich in Kiel", true), "ich wohne in Kiel");
    }
}
