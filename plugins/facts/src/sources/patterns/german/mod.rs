//! What German sentences say: who or what they are about, and what of them. Clauses come with the subject first.

mod life;
pub(super) mod rules;
mod work;

use std::sync::LazyLock;

use regex::Regex;
use skymem_core::facts::{EntityKind, EntityName, Object};

use super::names::{self, Language, Writing};
use super::people::{called, is_somebody_of_mine};
use super::phrases;
use super::reach::email;
use super::relations::{ADJECTIVES, relation, relation_words};
use super::rules::{Rule, Teller, Who, book, part, value};
use super::text::words;
use super::words::{ANIMALS, GENERIC, GERMAN_TRADES, KINDS_OF_PEOPLE, NO_NAMES};
use rules::{DOES, MINE};

struct Forms {
    does: Vec<(Regex, &'static Rule)>,
    mine: Vec<(Regex, &'static Rule)>,
    me: Regex,
    with_me: Regex,
    my: Regex,
    somebody: Regex,
    project: Regex,
    the: Regex,
    small: Regex,
    named: Regex,
    caused: Regex,
    cause: Regex,
    call_me: Regex,
    reach: Regex,
}

/// What a thing does, as opposed to a person.
const ABOUT_THINGS: &str = "nutzt|benutzt|verwendet|setzt|läuft|basiert|hängt|gehört|ist in|wurde in|ist (?:ein )?(?:Teil|Bestandteil|Modul)|hat (?:seinen|ihren) (?:Haupt)?sitz|\
    sitzt in|ist von|ist auf|wurde von|wurde auf|hat nie|nutzen|verwenden|hängen|sind in";

/// Verbs that say something of whoever has a name.
const VERBS: &str = "wohnt|lebt|arbeitet|ist|hat|wurde|kommt|stammt|spricht|mag|liebt|hasst|fährt|spielt|studiert|besitzt|bevorzugt|trinkt|isst|zog|starb|kann|\
    arbeitete|wohnte|lebte|reagiert";

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let compile = words;
    let somebody = relation_words();
    Some(Forms {
        does: book(DOES),
        mine: book(MINE),
        me: compile(r"(?i)^(?:ich|wir) (?P<does>.+)$")?,
        with_me: compile(r"^(?:[Mm]ein\w*|[Uu]nser\w*) .{1,60}? und ich (?P<does>.+)$")?,
        my: compile("(?i)^(?:mein|unser)(?:e[mnrs]?|en)? (?P<rest>.+)$")?,
        somebody: compile(&format!(
            "\\b(?i:mein|unser)(?i:e[mnrs]?)? (?P<who>(?i:{ADJECTIVES})(?:(?i:{somebody})|[\\w-]+)),? (?P<name>\\p{{Lu}}.*)$"
        ))?,
        project: compile(&format!(
            "^(?i:(?:das|unser|mein|der|die|unsere|meine) )?(?i:projekt|repo|repository|app|dienst|service|paket|bibliothek|werkzeug) (?P<name>[\\w][\\w.-]*) (?P<does>(?:{ABOUT_THINGS})\\b.+)$"
        ))?,
        the: compile(&format!(
            "(?i)^(?:der|die|das|unser|unsere|mein|meine) (?P<thing>.{{1,50}}?) (?P<does>(?:{ABOUT_THINGS})\\b.+)$"
        ))?,
        small: compile(&format!("^(?P<thing>[a-z][\\w.-]+) (?P<does>(?:{ABOUT_THINGS})\\b.+)$"))?,
        named: compile(&format!(
            "^(?P<name>\\p{{Lu}}[\\w.&-]*(?: \\p{{Lu}}[\\w.&-]*){{0,3}}) (?P<does>(?:{VERBS}|{ABOUT_THINGS})\\b.*)$"
        ))?,
        caused: compile(
            r"(?i)^(?P<what>.+?) (?:wurde|wurden|ist|war) (?:durch|von) (?P<o>.+?) (?:verursacht|ausgelöst|eingeführt|hervorgerufen)(?: worden)?(?P<more>,? .+)?$",
        )?,
        cause: compile(
            r"(?i)^(?:der |die )?(?:grund|ursache) (?:für|von|des|der) (?P<what>.+?) (?:war|ist|sind|waren) (?P<o>.+)$",
        )?,
        call_me: compile(
            r"(?i)^(?:man|alle|meine freunde|freunde|die meisten) nenn(?:t|en) mich (?P<o>.+)$|^(?:bitte )?nenn mich (?:bitte )?(?P<p>.+)$",
        )?,
        reach: compile(
            r"(?i)^(?:du kannst |bitte )?(?:erreichst du mich|mich erreichen|erreichst mich|schreib mir)(?: unter| an)? (?P<o>\S+@\S+)",
        )?,
    })
});

/// Has `teller` write down what its clause says in German; whether it says anything.
pub(super) fn tell(teller: &mut Teller<'_>, before: Option<&(EntityName, Who)>) -> bool {
    let Some(forms) = FORMS.as_ref() else {
        return false;
    };
    let said = teller.clause.said.clone();
    let start = teller.found.len();
    people_of_mine(forms, teller);
    if let Some(found) = forms.me.captures(&said).or_else(|| forms.with_me.captures(&said)) {
        teller.about_me();
        teller.tell(part(&found, "does"), &forms.does);
    } else if causes(forms, teller) {
        return true;
    } else if let Some(found) = forms.call_me.captures(&said) {
        teller.about_me();
        called(teller, &found);
    } else if let Some(found) = forms.reach.captures(&said) {
        teller.about_me();
        email(teller, &found);
    } else if !mine(forms, teller, &said) && !about_another(forms, teller, &said) && teller.clause.goes_on {
        // "... und arbeite bei Siemens."
        if let Some((subject, who)) = before {
            (teller.subject, teller.who) = (subject.clone(), *who);
            teller.tell(&said, &forms.does);
        }
    }
    teller.found.len() > start
}

/// "meine Schwester Katrin", wherever it stands in a main clause. Where the verb is last, any noun may follow.
fn people_of_mine(forms: &Forms, teller: &mut Teller<'_>) {
    let raw = teller.clause.raw.clone();
    let first = raw.split_whitespace().next().unwrap_or_default().to_lowercase();
    if matches!(first.as_str(), "dass" | "weil" | "da" | "ob" | "wenn") {
        return;
    }
    let mut rest = raw.as_str();
    for _ in 0..4 {
        let Some(found) = forms.somebody.captures(rest) else {
            return;
        };
        let (who, after) = (part(&found, "who"), part(&found, "name"));
        introduce(teller, who, after);
        rest = after;
    }
}

pub(super) fn introduce(teller: &mut Teller<'_>, who: &str, after: &str) {
    let Some((name, then)) = names::person(after, teller.writing) else {
        return;
    };
    // A capital says little here: a trade, or a noun before its verb, is no name.
    let next = then.trim_start_matches([',', ' ']);
    if GERMAN_TRADES.end(&name) || KINDS_OF_PEOPLE.has(&name) || next.starts_with("zu ") {
        return;
    }
    let Ok(name) = name.parse::<EntityName>() else {
        return;
    };
    let mine = teller.me.clone();
    if let Some(predicate) = relation(who) {
        teller.about_me();
        teller.holds_of(&mine, predicate, Object::Entity(name));
    } else if let Some(who) = who.split_whitespace().next_back().filter(|who| ANIMALS.has(who)) {
        teller.about_me();
        teller.holds_of(&mine, "has_pet", Object::Entity(name.clone()));
        teller.kind(name.clone(), EntityKind::Animal);
        teller.holds_of(&name, "is_a", Object::Literal(who.to_owned()));
    }
}

fn mine(forms: &Forms, teller: &mut Teller<'_>, said: &str) -> bool {
    let Some(found) = forms.my.captures(said) else {
        return false;
    };
    teller.about_me();
    teller.tell(part(&found, "rest"), &forms.mine)
}

/// A clause about somebody or something with a name.
fn about_another(forms: &Forms, teller: &mut Teller<'_>, said: &str) -> bool {
    if let Some(found) = forms.project.captures(said)
        && let Ok(name) = part(&found, "name").parse::<EntityName>()
        && !NO_NAMES.has(name.as_str())
    {
        (teller.subject, teller.who) = (name.clone(), Who::Thing);
        let told = teller.tell(part(&found, "does"), &forms.does);
        if told && said.to_lowercase().contains("projekt ") {
            teller.kind(name, EntityKind::Project);
        }
        return told;
    }
    // "meine Schwester Katrin arbeitet bei Siemens", "meine Frau heißt Eva und arbeitet ..." is told by what goes on.
    if let Some(found) =
        forms.somebody.captures(said).filter(|found| found.get(0).is_some_and(|whole| whole.start() == 0))
        && let Some((name, does)) = names::person(part(&found, "name"), teller.writing)
        && is_somebody_of_mine(part(&found, "who"))
    {
        let Ok(name) = name.parse() else { return false };
        (teller.subject, teller.who) = (name, Who::Person);
        return teller.tell(does.trim_start_matches([',', ' ']), &forms.does);
    }
    if let Some(found) = forms.the.captures(said) {
        let head = part(&found, "thing");
        let last = head.split_whitespace().next_back().unwrap_or_default();
        if head.split_whitespace().count() > 4 || GENERIC.has(last) || head.contains(',') {
            return false;
        }
        let Ok(name) = head.parse() else { return false };
        (teller.subject, teller.who) = (name, Who::Thing);
        return teller.tell(part(&found, "does"), &forms.does);
    }
    for form in [&forms.named, &forms.small] {
        let Some(found) = form.captures(said) else {
            continue;
        };
        let name = found.name("name").or(found.name("thing")).map(|name| name.as_str()).unwrap_or_default();
        let first = name.split_whitespace().next().unwrap_or_default();
        if NO_NAMES.has(first) || GENERIC.has(name) || relation(first).is_some() {
            return false;
        }
        let Ok(subject) = name.parse() else {
            return false;
        };
        (teller.subject, teller.who) = (subject, if found.name("name").is_some() { Who::Named } else { Who::Thing });
        return teller.tell(part(&found, "does"), &forms.does);
    }
    false
}

/// "A wurde durch B verursacht", "Ursache für A war B".
fn causes(forms: &Forms, teller: &mut Teller<'_>) -> bool {
    let raw = teller.clause.raw.clone();
    let Some(found) = forms.cause.captures(&raw).or_else(|| forms.caused.captures(&raw)) else {
        return false;
    };
    // "die Entscheidung verursacht, das Caching abzuschalten" belongs together.
    let more = part(&found, "more");
    let why = if more.contains(" zu") || more.contains("zu") {
        format!("{}{more}", value(&found))
    } else {
        value(&found).to_owned()
    };
    let (Some(what), Some(why)) = (phrases::thing(part(&found, "what")), phrases::thing(&why)) else {
        return false;
    };
    if GENERIC.has(&what) || NO_NAMES.has(&what) || what.split_whitespace().count() > 8 || what.contains(',') {
        return false;
    }
    let (Ok(what), Ok(why)) = (what.parse(), why.parse()) else {
        return false;
    };
    (teller.subject, teller.who) = (what, Who::Thing);
    teller.holds("caused_by", Object::Entity(why), false);
    true
}

/// How a text in German is written.
pub(super) fn writing(lower: bool) -> Writing {
    Writing { language: Language::German, lower }
}
