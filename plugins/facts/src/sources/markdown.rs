//! The facts that stand in a memory file: lists of `key: value` pairs, and `[[links]]`.
//!
//! - `- project: skymem uses: PostgreSQL, Redis since: 2024` says what a thing is and what holds of it. The first pair names
//!   it; `since` and `until` are of the pair before them.
//! - `[[Anna]]` under the heading `skymem` says that skymem mentions Anna; `uses [[PostgreSQL]]` that it uses it;
//!   `[[skymem]] uses [[PostgreSQL]]` the same wherever it stands.
//!
//! Code, comments and front matter say nothing.

use std::sync::LazyLock;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use regex::Regex;
use skymem_core::facts::{EntityKind, EntityName, Holds, Object, Predicate, Statement};

use super::{Found, values};

/// The most facts of one file, and the longest line that is read, in bytes.
const MOST_FOUND: usize = 2_000;
const LONGEST_LINE: usize = 4_000;

/// The facts of a memory file, each with its line, from 1.
pub(crate) fn find(text: &str) -> Vec<(u32, Found)> {
    let Some(forms) = FORMS.as_ref() else { return Vec::new() };
    let Read { lines, headings } = read(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    let mut found = Vec::new();
    let mut above: Vec<&Heading> = Vec::new();
    let mut headings = headings.iter().peekable();
    for (number, line) in (1_u32..).zip(lines.lines()) {
        while let Some(heading) = headings.next_if(|heading| heading.line <= number) {
            above.retain(|other| other.level < heading.level);
            above.push(heading);
        }
        if line.len() > LONGEST_LINE || above.last().is_some_and(|heading| heading.line == number) {
            continue;
        }
        let line = line.replace("**", "").replace("__", "");
        let statements = pairs(forms, &line).unwrap_or_else(|| links(forms, &line, &about(&above)));
        found.extend(statements.into_iter().map(|statement| (number, Found { statement, confidence: 1.0 })));
        if found.len() >= MOST_FOUND {
            break;
        }
    }
    found.truncate(MOST_FOUND);
    found.retain(|(_, found)| found.statement.check().is_ok());
    found
}

struct Forms {
    item: Regex,
    key: Regex,
    link: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    Some(Forms {
        item: Regex::new(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?(?P<text>.+)$").ok()?,
        key: Regex::new(r"(?:^|\s)(?P<key>\p{L}[\p{L}\p{N}_-]*):").ok()?,
        link: Regex::new(r"\[\[(?P<to>[^\[\]|#\n]{1,200})(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]").ok()?,
    })
});

/// A file as lines in which what says nothing is blank, and its headings.
struct Read {
    lines: String,
    headings: Vec<Heading>,
}

struct Heading {
    line: u32,
    level: HeadingLevel,
    title: String,
}

fn read(text: &str) -> Read {
    let mut silent: Vec<std::ops::Range<usize>> = Vec::new();
    let mut headings: Vec<Heading> = Vec::new();
    let mut open: Option<Heading> = None;
    let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line_of = |at: usize| u32::try_from(starts.partition_point(|start| *start <= at)).unwrap_or(u32::MAX);
    let options = Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::MetadataBlock(_))
            | Event::Code(_)
            | Event::InlineHtml(_) => {
                silent.push(range);
            }
            Event::Start(Tag::Heading { level, .. }) => {
                open = Some(Heading { line: line_of(range.start), level, title: String::new() });
            }
            Event::End(TagEnd::Heading(_)) => headings.extend(open.take()),
            Event::Text(words) => {
                if let Some(heading) = &mut open {
                    heading.title.push_str(&words);
                }
            }
            _ => {}
        }
    }
    let mut lines = text.as_bytes().to_vec();
    for range in silent {
        for byte in lines.get_mut(range).into_iter().flatten() {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    // Ranges of events begin and end between characters.
    Read { lines: String::from_utf8(lines).unwrap_or_default(), headings }
}

/// Headings that sort a file rather than name something.
const SORTING: &[&str] = &[
    "preferences",
    "decisions",
    "notes",
    "note",
    "links",
    "todo",
    "to do",
    "settings",
    "now",
    "memory",
    "facts",
    "projects",
    "people",
    "contacts",
    "tools",
    "misc",
    "other",
    "work",
    "family",
    "background",
    "context",
    "open questions",
    "log",
    "journal",
    "inbox",
    "ideas",
    "einstellungen",
    "entscheidungen",
    "notizen",
    "vorlieben",
    "projekte",
    "leute",
    "kontakte",
    "werkzeuge",
    "sonstiges",
    "arbeit",
    "familie",
];

/// Headings under which the person writes of themselves.
const OWN: &[&str] = &["about me", "me", "myself", "i", "über mich", "ich", "zu mir", "profile", "profil"];

/// Whom or what the text below `above` is about: the nearest heading that names something; else the person.
fn about(above: &[&Heading]) -> Option<EntityName> {
    for heading in above.iter().rev() {
        let title = heading.title.trim().trim_end_matches([':', '.']);
        let lower = title.to_lowercase();
        if OWN.contains(&lower.as_str()) {
            break;
        }
        if !SORTING.contains(&lower.as_str()) && !lower.is_empty() {
            return title.trim_matches(['[', ']']).parse().ok();
        }
    }
    EntityName::SELF.parse().ok()
}

/// What kind of thing a key names; `None` when it names none.
fn kind(key: &str) -> Option<EntityKind> {
    Some(match key.to_lowercase().as_str() {
        "person" | "human" | "friend" | "colleague" | "contact" | "freund" | "freundin" | "kollege" | "kollegin"
        | "kontakt" => EntityKind::Person,
        "organisation" | "organization" | "company" | "team" | "firma" | "unternehmen" | "verein" => {
            EntityKind::Organisation
        }
        "place" | "city" | "country" | "ort" | "stadt" | "land" => EntityKind::Place,
        "project" | "projekt" | "repo" | "repository" => EntityKind::Project,
        "technology" | "tool" | "library" | "language" | "service" | "component" | "module" | "app" | "crate"
        | "package" | "database" | "server" | "technologie" | "werkzeug" | "bibliothek" | "dienst" | "komponente"
        | "modul" | "datenbank" => EntityKind::Technology,
        "event" | "bug" | "decision" | "meeting" | "incident" | "outage" | "fehler" | "entscheidung" | "termin"
        | "ereignis" => EntityKind::Event,
        "animal" | "pet" | "dog" | "cat" | "tier" | "haustier" | "hund" | "katze" => EntityKind::Animal,
        "entity" | "thing" | "ding" | "sache" => EntityKind::Other,
        _ => return None,
    })
}

/// The statements of a list item of pairs; `None` when it is none.
fn pairs(forms: &Forms, line: &str) -> Option<Vec<Statement>> {
    let item = forms.item.captures(line)?.name("text")?.as_str();
    // "http://" has no value of its own.
    let ends =
        |end: usize| item.get(end..).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    let keys: Vec<_> = forms
        .key
        .captures_iter(item)
        .filter_map(|found| Some((found.get(0)?, found.name("key")?)))
        .filter(|(whole, _)| ends(whole.end()))
        .collect();
    let (first, first_key) = keys.first()?;
    let kind = kind(first_key.as_str()).filter(|_| first.start() == 0)?;
    let values = keys.iter().enumerate().map(|(number, (whole, key))| {
        let end = keys.get(number + 1).map_or(item.len(), |(next, _)| next.start());
        (key.as_str(), item.get(whole.end()..end).unwrap_or_default().trim())
    });
    let plain = |value: &str| forms.link.replace_all(value, "${to}").trim_end_matches([',', ';']).trim().to_owned();
    let mut values = values.map(|(key, value)| (key, plain(value)));
    let subject: EntityName = values.next()?.1.parse().ok()?;
    let mut statements = Vec::new();
    if kind != EntityKind::Other {
        statements.push(Statement::Kind { name: subject.clone(), kind });
    }
    // Where the facts of the pair before begin.
    let mut last = statements.len();
    for (key, value) in values {
        match key.to_lowercase().as_str() {
            "since" | "from" | "seit" | "ab" if last < statements.len() => {
                each_fact(statements.get_mut(last..), |holds| holds.from = values::moment(&value));
            }
            "until" | "to" | "bis" if last < statements.len() => {
                each_fact(statements.get_mut(last..), |holds| holds.until = values::moment(&value));
            }
            _ => {
                last = statements.len();
                let Some(predicate) = values::predicate(key) else { continue };
                statements
                    .extend(listed(&predicate, &value).into_iter().map(|object| holds(&subject, &predicate, object)));
            }
        }
    }
    Some(statements)
}

fn each_fact(statements: Option<&mut [Statement]>, change: impl Fn(&mut Holds)) {
    for statement in statements.into_iter().flatten() {
        if let Statement::Holds(holds) = statement {
            change(holds);
        }
    }
}

/// The values in `value`: what stands between commas, unless commas belong to it, as in an address.
fn listed(predicate: &Predicate, value: &str) -> Vec<Object> {
    let whole =
        ["address", "note", "decided", "description", "caused_by", "born_on", "phone"].contains(&predicate.as_str());
    let parts: Vec<&str> = value.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()).collect();
    let several = !whole && parts.iter().all(|part| part.split_whitespace().count() <= 5);
    let parts = if several { parts } else { vec![value] };
    parts.into_iter().filter_map(|part| values::object(predicate, part)).collect()
}

fn holds(subject: &EntityName, predicate: &Predicate, object: Object) -> Statement {
    let (subject, predicate) = (subject.clone(), predicate.clone());
    Statement::Holds(Holds { subject, predicate, object, from: None, until: None, confidence: 1.0, corrects: false })
}

/// What a line with links says of `about`, or of the link or name that it begins with.
fn links(forms: &Forms, line: &str, about: &Option<EntityName>) -> Vec<Statement> {
    let mut statements = Vec::new();
    let text = forms.item.captures(line).and_then(|found| found.name("text")).map_or(line.trim(), |text| text.as_str());
    let mut subject = about.clone();
    let mut last: Option<Predicate> = None;
    let mut begun = 0;
    for found in forms.link.captures_iter(text) {
        let (Some(whole), Some(to)) = (found.get(0), found.name("to")) else { continue };
        let Ok(to) = to.as_str().parse::<EntityName>() else { continue };
        let before = text.get(begun..whole.start()).unwrap_or_default();
        let first = begun == 0;
        begun = whole.end();
        let predicate = match verb(before) {
            Some((predicate, name)) => {
                // "skymem uses [[PostgreSQL]]".
                if first && let Some(name) = name {
                    subject = Some(name);
                }
                Some(predicate)
            }
            // "uses [[A]], [[B]] and [[C]]".
            None if matches!(before.trim(), "," | "and" | "und" | "&" | ", and" | ", und" | "+") => last.clone(),
            None => None,
        };
        if predicate.is_none()
            && first
            && before.trim().is_empty()
            && verb_follows(text.get(whole.end()..).unwrap_or_default())
        {
            // "[[skymem]] uses [[PostgreSQL]]".
            subject = Some(to);
            continue;
        }
        let Some(subject) = &subject else { continue };
        let named = predicate.clone().or_else(|| "mentions".parse().ok());
        if let Some(predicate) = named {
            statements.push(holds(subject, &predicate, Object::Entity(to)));
        }
        last = predicate;
    }
    statements
}

/// The known predicate that `before` ends with, and the name it begins with when there is nothing else.
fn verb(before: &str) -> Option<(Predicate, Option<EntityName>)> {
    let words: Vec<&str> = before.trim().trim_end_matches(':').split_whitespace().collect();
    // "is part of", "depends on", "uses".
    for count in (1..=4.min(words.len())).rev() {
        let (rest, verb) = words.split_at(words.len() - count);
        let Some(predicate) = values::predicate(&verb.join("_")).filter(values::is_known) else { continue };
        let name = (1..=3)
            .contains(&rest.len())
            .then(|| rest.join(" "))
            .filter(|name| !name.contains(['[', ']', ',', '.', ':']));
        return Some((predicate, name.and_then(|name| name.parse().ok())));
    }
    None
}

/// Whether what follows a link says something of it, up to the next link.
fn verb_follows(after: &str) -> bool {
    after.split_once("[[").is_some_and(|(between, _)| verb(between).is_some_and(|(_, name)| name.is_none()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::notation;
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> =
            find(text).iter().map(|(line, found)| format!("{line}: {}", notation(&found.statement))).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn a_list_of_pairs_says_what_a_thing_is_and_what_holds_of_it() {
        check(
            "# Notes\n\n- project: skymem uses: PostgreSQL, Redis\n* person: Anna lives_in: Bremen since: 2024-05 works-at: ACME",
            &[
                "3: skymem is Project",
                "3: skymem | uses | PostgreSQL",
                "3: skymem | uses | Redis",
                "4: Anna is Person",
                "4: Anna | lives_in | Bremen | from 2024-05-01",
                "4: Anna | works_at | ACME",
            ],
        );
        check("1. **person:** user **email:** a@b.de", &["1: user is Person", "1: user | email | a@b.de"]);
        check(
            "- [x] person: Tom address: Lindenweg 5, 28195 Bremen employer: ACME from: 2019 until: 2021",
            &[
                "1: Tom is Person",
                "1: Tom | address | Lindenweg 5, 28195 Bremen",
                "1: Tom | works_at | ACME | from 2019-01-01 | until 2021-01-01",
            ],
        );
        check(
            "- projekt: [[skymem]] nutzt: [[PostgreSQL]]",
            &["1: skymem is Project", "1: skymem | uses | PostgreSQL"],
        );
        check("- project: skymem", &["1: skymem is Project"]);
        check("- thing: wall paint: red", &["1: wall | paint | red"]);
    }

    #[test]
    fn what_only_looks_like_pairs_says_nothing() {
        for text in [
            "project: skymem uses: PostgreSQL",
            "- deadline: Friday status: open",
            "- see http://example.org: it is good",
            "- project:",
            "- project: uses: PostgreSQL",
            "- at 10:30 we met",
            "- I said: project: skymem",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn a_link_is_mentioned_by_its_heading() {
        check(
            "# skymem\n\nTalk to [[Anna]] about [[B|the plan]].",
            &["3: skymem | mentions | Anna", "3: skymem | mentions | B"],
        );
        check("# About me\nI met [[Anna#work]].", &["2: user | mentions | Anna"]);
        check("# skymem\n## Notes\n[[Anna]]", &["3: skymem | mentions | Anna"]);
        check("# Notes\n[[Anna]]", &["2: user | mentions | Anna"]);
        check("# Anna\n[[Anna]] [[  ]] [[]] [[a\nb]]", &[]);
    }

    #[test]
    fn the_words_before_a_link_say_what_of_it() {
        check(
            "# skymem\n- uses [[PostgreSQL]], [[Redis]] and [[Kafka]]",
            &["2: skymem | uses | PostgreSQL", "2: skymem | uses | Redis", "2: skymem | uses | Kafka"],
        );
        check(
            "# skymem\nis part of [[Lab]], see [[Anna]]",
            &["2: skymem | part_of | Lab", "2: skymem | mentions | Anna"],
        );
        check("# Projects\n[[skymem]] uses [[PostgreSQL]]", &["2: skymem | uses | PostgreSQL"]);
        check("- skymem depends on: [[sqlx]]", &["1: skymem | depends_on | sqlx"]);
        check("# skymem\nwritten in: [[Rust]]", &["2: skymem | written_in | Rust"]);
    }

    #[test]
    fn code_comments_and_front_matter_say_nothing() {
        check("---\ntitle: x\nlist: [[A]]\n---\n", &[]);
        check("```\n- project: a uses: b\n[[C]]\n```\n", &[]);
        check("    - project: a uses: b", &[]);
        check("<!-- [[A]]\n- project: a uses: b -->\n", &[]);
        check("`[[A]]` and <b title=\"[[B]]\">", &[]);
        check("a <!-- [[A]] --> [[B]]", &["1: user | mentions | B"]);
    }

    #[test]
    fn lines_are_those_of_the_file() {
        check("# A\r\n\r\n[[B]]\r\n", &["3: A | mentions | B"]);
        check("A\n===\n\n[[B]]", &["4: A | mentions | B"]);
        check("\u{FEFF}# A\n[[B]]", &["2: A | mentions | B"]);
    }

    #[test]
    fn a_large_file_is_read_up_to_a_bound() {
        let begun = std::time::Instant::now();

        let found = find(&"# A\n- project: a uses: b [[c]]\n".repeat(40_000));

        assert_eq!(found.len(), MOST_FOUND);
        assert!(find(&"[[".repeat(500_000)).is_empty());
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn no_file_breaks_it(
            pieces in prop::collection::vec(prop::sample::select(&[
                "- ", "# ", "project:", "uses:", "[[", "]]", "|", "#", "A", "ß", "\n", " ", "```", "<!--", "-->", "---\n", ":", "since: 2024", "[[A]]",
                "\u{0}", ",", "> ", "\t", "1. ", "x: ", "\r\n",
            ][..]), 0..40),
        ) {
            let text = pieces.concat();
            for (line, found) in find(&text) {
                prop_assert!(line >= 1 && line as usize <= text.lines().count(), "{text:?}");
                prop_assert!(found.statement.check().is_ok());
            }
        }
    }
}
