//! What English sentences say: who or what they are about, and what of them.

mod life;
pub(super) mod rules;
mod work;

use std::sync::LazyLock;

use regex::Regex;
use skymem_core::facts::{EntityKind, EntityName, Object};

use super::names::{self, Language, Writing};
use super::people::{called, is_somebody_of_mine, pet, related};
use super::phrases;
use super::reach::email;
use super::relations::{ADJECTIVES, relation, relation_words};
use super::rules::{Rule, Teller, Who, book, part, value};
use super::text::words;
use super::tools;
use super::words::{ANIMALS, GENERIC, KINDS_OF_PEOPLE, NO_NAMES};
use rules::{DOES, MINE};
use work::as_a;

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
    cause: Regex,
    was_caused: Regex,
    as_a: Regex,
    reach: Regex,
    call_me: Regex,
}

/// What a thing does, as opposed to a person.
const ABOUT_THINGS: &str = "uses?|no longer uses?|stopped using|is using|does not use|do not use|runs? on|depends? on|relies on|is (?:re)?written in|was (?:re)?written in|\
    are written in|is (?:built|powered) (?:with|on|by)|is implemented in|is (?:a )?(?:part|component|module) of|belongs to|is (?:based|headquartered) in|\
    (?:has )?(?:switched|migrated|moved) (?:from|to)|never used";

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let compile = words;
    let somebody = relation_words();
    Some(Forms {
        does: book(DOES),
        mine: book(MINE),
        me: compile(r"(?i)^(?:i|we) (?P<does>.+)$")?,
        with_me: compile(r"^(?:[Mm]y|[Oo]ur) .{1,60}? and I (?P<does>.+)$")?,
        my: compile("(?i)^(?:my|our) (?P<rest>.+)$")?,
        somebody: compile(&format!(
            "\\b(?i:my|our) (?P<who>(?i:{ADJECTIVES})(?:(?i:{somebody})|[\\w-]+)),? (?P<name>\\p{{Lu}}.*)$"
        ))?,
        project: compile(
            r"^(?i:(?:the|our|my) )?(?i:project|repo|repository|app|service|package|crate|library|tool) (?P<name>[\w][\w.-]*) (?P<does>\p{Ll}.+)$",
        )?,
        the: compile(&format!("(?i)^(?:the|our|my) (?P<thing>.{{1,60}}?) (?P<does>(?:{ABOUT_THINGS})\\b.+)$"))?,
        small: compile(&format!("^(?P<thing>[a-z][\\w.-]+) (?P<does>(?:{ABOUT_THINGS})\\b.+)$"))?,
        cause: compile(
            r"(?i)^(?:the )?(?:root )?(?:cause|reason) (?:of|for|behind) (?P<what>.+?) (?:was|is) (?P<o>.+)$",
        )?,
        was_caused: compile(
            r"(?i)^(?P<what>.+?) (?:(?:was|were|is|are|has been|got) (?:actually )?(?:caused|introduced|triggered|broken) by|(?:was|is|were|are) due to) (?P<o>.+)$",
        )?,
        as_a: compile(r"(?i)^as an? (?P<o>[^,]+?),? (?:i|we) .*$")?,
        reach: compile(
            r"(?i)^(?:you can |please )?(?:reach|contact|e-?mail|write(?: to)?|message) me (?:at|under|on|via|by e-?mail at) (?P<o>\S+@\S+)",
        )?,
        call_me: compile(
            r"(?i)^(?:(?:you can |please |just |but )*call me|(?:everyone|everybody|people|friends|my friends|they|most people) (?:just )?calls? me) (?P<o>.+)$",
        )?,
    })
});

/// Has `teller` write down what its clause says in English; whether it says anything.
pub(super) fn tell(teller: &mut Teller<'_>, before: Option<&(EntityName, Who)>) -> bool {
    let Some(forms) = FORMS.as_ref() else {
        return false;
    };
    let said = teller.clause.said.clone();
    let start = teller.found.len();
    people_of_mine(forms, teller);
    if let Some(found) = forms.as_a.captures(&said) {
        as_a(teller, &found);
    }
    if let Some(found) = forms.me.captures(&said).or_else(|| forms.with_me.captures(&said)) {
        teller.about_me();
        teller.tell(part(&found, "does"), &forms.does);
    } else if causes(forms, teller) {
        return true;
    } else if let Some(found) = forms.reach.captures(&said) {
        teller.about_me();
        email(teller, &found);
    } else if let Some(found) = forms.call_me.captures(&said) {
        teller.about_me();
        called(teller, &found);
    } else if !mine(forms, teller, &said) && !about_another(forms, teller, &said) && teller.clause.goes_on {
        // "... and work at ACME."
        if let Some((subject, who)) = before {
            (teller.subject, teller.who) = (subject.clone(), *who);
            teller.tell(&said, &forms.does);
        }
    }
    teller.found.len() > start
}

/// "my sister Clara", wherever it stands.
fn people_of_mine(forms: &Forms, teller: &mut Teller<'_>) {
    let raw = teller.clause.raw.clone();
    let mut rest = raw.as_str();
    for _ in 0..4 {
        let Some(found) = forms.somebody.captures(rest) else {
            return;
        };
        let (who, after) = (part(&found, "who"), part(&found, "name"));
        teller.about_me();
        introduce(teller, who, after);
        rest = after;
    }
}

/// Somebody or some animal of mine, whose name begins `after`.
pub(super) fn introduce(teller: &mut Teller<'_>, who: &str, after: &str) {
    let last = who.split_whitespace().next_back().unwrap_or_default();
    if let Some(predicate) = relation(who) {
        let several = last.ends_with('s') && last != "boss" && last != "sis" || last == "children";
        let names = if several { names::people(after, teller.writing) } else { Vec::new() };
        let one = || names::person(after, teller.writing).map(|(name, _)| name).into_iter().collect();
        let names: Vec<String> = if names.is_empty() { one() } else { names };
        for name in names {
            if !KINDS_OF_PEOPLE.has(&name) {
                related(teller, predicate, &name);
            }
        }
    } else if ANIMALS.has(last) {
        pet(teller, last, after);
    }
}

/// "My favourite colour is teal", "my sister is called Clara", "my son is 7".
fn mine(forms: &Forms, teller: &mut Teller<'_>, said: &str) -> bool {
    let Some(found) = forms.my.captures(said) else {
        return false;
    };
    teller.about_me();
    teller.tell(part(&found, "rest"), &forms.mine)
}

/// A clause about somebody or something with a name.
fn about_another(forms: &Forms, teller: &mut Teller<'_>, said: &str) -> bool {
    let parse = |name: &str| name.trim().parse::<EntityName>().ok();
    if let Some(found) = forms.project.captures(said)
        && let Some(name) = parse(part(&found, "name"))
        && !NO_NAMES.has(name.as_str())
        && teller.writing.lower | tools::is_coined_or_capital(name.as_str()) | said.to_lowercase().contains("project ")
    {
        (teller.subject, teller.who) = (name.clone(), Who::Thing);
        let told = teller.tell(part(&found, "does"), &forms.does);
        if told && said.to_lowercase().contains("project ") {
            teller.kind(name, EntityKind::Project);
        }
        return told;
    }
    // "my sister Clara lives in Vienna".
    if let Some(found) =
        forms.somebody.captures(said).filter(|found| found.get(0).is_some_and(|whole| whole.start() == 0))
        && let Some((name, does)) = names::person(part(&found, "name"), teller.writing)
        && is_somebody_of_mine(part(&found, "who"))
    {
        let Some(name) = parse(&name) else {
            return false;
        };
        (teller.subject, teller.who) = (name, Who::Person);
        return teller.tell(does.trim_start_matches([',', ' ']), &forms.does);
    }
    if let Some(found) = forms.the.captures(said) {
        let head = part(&found, "thing");
        let named = head.strip_suffix(" project").or(head.strip_prefix("project ")).unwrap_or(head);
        let last = head.split_whitespace().next_back().unwrap_or_default();
        if head.split_whitespace().count() <= 4
            && !GENERIC.has(last)
            && !clausal(head)
            && let Some(name) = parse(named)
        {
            (teller.subject, teller.who) = (name.clone(), Who::Thing);
            let told = teller.tell(part(&found, "does"), &forms.does);
            if told && named.len() < head.len() {
                teller.kind(name, EntityKind::Project);
            }
            return told;
        }
        return false;
    }
    if let Some((name, does)) = names::name(said, Writing { lower: false, ..teller.writing })
        && does.starts_with(' ')
        && !GENERIC.has(name.split_whitespace().next_back().unwrap_or_default())
        && let Some(name) = parse(&name)
    {
        (teller.subject, teller.who) = (name, Who::Named);
        return teller.tell(does.trim_start(), &forms.does);
    }
    if let Some(found) = forms.small.captures(said)
        && let name = part(&found, "thing")
        && !NO_NAMES.has(name)
        && !GENERIC.has(name)
        && let Some(subject) = parse(name)
    {
        (teller.subject, teller.who) = (subject, Who::Thing);
        return teller.tell(part(&found, "does"), &forms.does);
    }
    false
}

/// Whether the head of a sentence is no thing's name but words of a sentence.
fn clausal(head: &str) -> bool {
    head.split_whitespace().any(|word| {
        matches!(
            word.to_lowercase().as_str(),
            "that" | "which" | "who" | "is" | "was" | "and" | "or" | "not" | "with" | "same" | "other" | "only"
        )
    })
}

/// "A was caused by B", "the cause of A was B".
fn causes(forms: &Forms, teller: &mut Teller<'_>) -> bool {
    let raw = teller.clause.raw.clone();
    let Some(found) = forms.cause.captures(&raw).or_else(|| forms.was_caused.captures(&raw)) else {
        return false;
    };
    let what = part(&found, "what");
    let (Some(what), Some(why)) = (phrases::thing(what), cause(value(&found))) else {
        return false;
    };
    let first = what.split_whitespace().next().unwrap_or_default();
    if GENERIC.has(&what) || NO_NAMES.has(first) || what.split_whitespace().count() > 8 || what.contains(',') {
        return false;
    }
    let (Ok(what), Ok(why)) = (what.parse(), why.parse()) else {
        return false;
    };
    (teller.subject, teller.who) = (what, Who::Thing);
    teller.holds("caused_by", Object::Entity(why), false);
    true
}

fn cause(words: &str) -> Option<String> {
    let end = [", ", " which ", " because ", "; ", " - "].iter().filter_map(|end| words.find(end)).min();
    phrases::thing(words.get(..end.unwrap_or(words.len()))?).filter(|thing| !NO_NAMES.has(thing))
}

/// How a text in English is written.
pub(super) fn writing(lower: bool) -> Writing {
    Writing { language: Language::English, lower }
}
