//! CSV: a fact on each line.

use std::collections::HashMap;
use std::io::BufRead;

use skymem_core::facts::{EntityKind, EntityName, Holds, Object, Statement};

use super::columns::{Columns, Row, refused};
use super::records::{Record, Records};
use super::times::moment;
use super::{ImportError, ImportLine, LONGEST_LINE, Says, Stated, until_it_breaks};

/// So many entities are remembered with the kind they are known to be of; the statement about it is not repeated for them.
const MOST_KINDS: usize = 65_536;

/// The lines of `input`, whose first one that is not blank is the last of `head`.
pub(super) fn read<R: BufRead>(
    head: &[u8],
    input: R,
) -> Result<impl Iterator<Item = Result<ImportLine, ImportError>> + use<R>, ImportError> {
    // The names of columns have none of these in them.
    let delimiter = [b',', b';', b'\t'].into_iter().find(|delimiter| head.contains(delimiter)).unwrap_or(b',');
    let mut records = Records::new(input, delimiter);
    let columns = match records.next()? {
        Record::Read(_) => Columns::named(records.fields())?,
        Record::TooLong(_) | Record::End => return Err(refused("is longer than a line of names can be")),
    };
    let mut kinds = Kinds::default();
    Ok(until_it_breaks(move || {
        loop {
            let (number, says) = match records.next()? {
                Record::End => return Ok(None),
                Record::Read(_) if records.fields().all(|field| field.trim_ascii().is_empty()) => continue,
                Record::Read(number) => (
                    number,
                    columns.row(records.fields()).and_then(|row| row.says(&mut kinds)).unwrap_or_else(Says::Unreadable),
                ),
                Record::TooLong(number) => {
                    let most = LONGEST_LINE / (1024 * 1024);
                    (number, Says::Unreadable(format!("is longer than {most} MiB: is a quote left open?")))
                }
            };
            return Ok(Some(ImportLine { number, says }));
        }
    }))
}

impl Row<'_> {
    fn says(&self, known: &mut Kinds) -> Result<Says, String> {
        let in_column = |column, bad: &dyn std::fmt::Display| format!("{column}: {bad}");
        let holds = Holds {
            subject: self.subject.parse().map_err(|bad| in_column("subject", &bad))?,
            predicate: self.predicate.parse().map_err(|bad| in_column("predicate", &bad))?,
            object: self.object()?,
            from: moment(self.valid_from).map_err(|bad| in_column("valid_from", &bad))?,
            until: moment(self.valid_to).map_err(|bad| in_column("valid_to", &bad))?,
            confidence: self.confidence()?,
            corrects: false,
        };
        if holds.from.zip(holds.until).is_some_and(|(from, until)| until <= from) {
            return Err("valid_to: must be later than valid_from".into());
        }
        let subject_kind = kind(self.subject_kind).map_err(|bad| in_column("subject_kind", &bad))?;
        let object_kind = kind(self.object_kind).map_err(|bad| in_column("object_kind", &bad))?;
        let from_is_said = self.start_is_said()?;
        if !self.retracted_at.is_empty() {
            return Ok(Says::Nothing("was taken back"));
        }
        let mut kinds = vec![(holds.subject.clone(), subject_kind)];
        if let Object::Entity(name) = &holds.object {
            kinds.push((name.clone(), object_kind));
        }
        Statement::Holds(holds.clone()).check().map_err(|bad| bad.to_string())?;
        // What is only known to have held since some moment was said then: no start is put into anybody's mouth.
        let (from, occurred_at) = if from_is_said { (holds.from, None) } else { (None, holds.from) };
        let holds = Stated { statement: Statement::Holds(Holds { from, ..holds }), occurred_at };
        let kinds = kinds.into_iter().filter_map(|(name, kind)| known.tell(name, kind?));
        Ok(Says::Statements(std::iter::once(holds).chain(kinds.map(Stated::from)).collect()))
    }

    /// Whether `valid_from` is what somebody said; what says nothing of it is told as such.
    fn start_is_said(&self) -> Result<bool, String> {
        let said = truth(self.valid_from_is_said).map_err(|bad| format!("valid_from_is_said: {bad}"))?;
        Ok(said.unwrap_or(true))
    }

    fn object(&self) -> Result<Object, String> {
        let name = self.object.parse::<EntityName>();
        let is_literal = match truth(self.object_is_literal).map_err(|bad| format!("object_is_literal: {bad}"))? {
            Some(told) => told,
            None if !self.object_kind.is_empty() => false,
            None => name.is_err() || !self.object.chars().any(char::is_alphabetic),
        };
        match name {
            _ if self.object.trim().is_empty() => Err("object: must not be blank".into()),
            _ if is_literal => Ok(Object::Literal(self.object.to_owned())),
            Ok(name) => Ok(Object::Entity(name)),
            Err(bad) => Err(format!("object: {bad}")),
        }
    }

    fn confidence(&self) -> Result<f32, String> {
        if self.confidence.is_empty() {
            return Ok(1.0);
        }
        let number = self.confidence.parse::<f32>().ok().filter(|number| *number > 0.0 && *number <= 1.0);
        number.ok_or_else(|| format!("confidence: {:?} is not a number above 0, at most 1", self.confidence))
    }
}

/// What `word` answers to a question; none for a blank one.
fn truth(word: &str) -> Result<Option<bool>, String> {
    match word.to_lowercase().as_str() {
        "" => Ok(None),
        "true" | "yes" | "1" => Ok(Some(true)),
        "false" | "no" | "0" => Ok(Some(false)),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

/// The kind that `word` is for; none for a blank one, and for `other`, which says nothing.
fn kind(word: &str) -> Result<Option<EntityKind>, String> {
    match word.to_lowercase().as_str() {
        "" | "other" => Ok(None),
        word => match EntityKind::ALL.into_iter().find(|kind| kind.as_str() == word) {
            Some(kind) => Ok(Some(kind)),
            None => Err(format!("{word:?} is none of {}", EntityKind::ALL.map(EntityKind::as_str).join(", "))),
        },
    }
}

/// Which kinds were told already: every line of an export tells them again.
#[derive(Default)]
struct Kinds(HashMap<EntityName, EntityKind>);

impl Kinds {
    /// The statement that `name` is of `kind`, unless it was the last that was told of it.
    fn tell(&mut self, name: EntityName, kind: EntityKind) -> Option<Statement> {
        // Telling one again is harmless; remembering millions is not.
        if self.0.len() >= MOST_KINDS {
            self.0.clear();
        }
        (self.0.insert(name.clone(), kind) != Some(kind)).then_some(Statement::Kind { name, kind })
    }
}

#[cfg(test)]
mod tests {
    use skymem_core::facts::{Fact, FactObject};

    use super::super::ImportFormat;
    use super::*;
    use crate::facts::export::{self, ExportFormat};

    fn lines(text: &[u8]) -> Vec<ImportLine> {
        super::super::read(ImportFormat::Csv, text).unwrap().map(Result::unwrap).collect()
    }

    /// The statements in words, and what else the lines say.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut seen = Vec::new();
        for ImportLine { number, says } in lines(text.as_bytes()) {
            match says {
                Says::Statements(all) => seen.extend(all.iter().map(|told| format!("{number}: {}", told.statement))),
                Says::Nothing(why) => seen.push(format!("{number} left out: {why}")),
                Says::Unreadable(why) => seen.push(format!("{number} unreadable: {why}")),
            }
        }
        assert_eq!(seen, expected);
    }

    fn holds(text: &str) -> Holds {
        match lines(text.as_bytes()).remove(0).says {
            Says::Statements(statements) => match statements.into_iter().next().map(|told| told.statement) {
                Some(Statement::Holds(holds)) => holds,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_is_a_fact() {
        check(
            "subject,predicate,object\nAnn,lives in,Bonn\n\nAnn,age,42\n,,\nskymem,uses,PostgreSQL",
            &["2: Ann lives in Bonn.", "4: Ann age 42.", "6: skymem uses PostgreSQL."],
        );
    }

    #[test]
    fn columns_come_in_any_order_and_those_at_the_end_may_be_missing() {
        let holds = holds("Valid From;object;CONFIDENCE;predicate;subject;until\n2019;Bonn;0.5;lives_in;Ann\n");

        assert_eq!(holds.subject.as_str(), "Ann");
        assert_eq!(holds.from.unwrap().to_rfc3339(), "2019-01-01T00:00:00+00:00");
        assert_eq!((holds.until, holds.confidence, holds.corrects), (None, 0.5, false));
    }

    #[test]
    fn tabs_part_columns_too() {
        check("subject\tpredicate\tobject\nAnn\tlives in\tBonn, Germany\n", &["2: Ann lives in Bonn, Germany."]);
    }

    #[test]
    fn an_object_without_a_letter_is_a_literal_unless_the_line_says_otherwise() {
        let object = |line: &str| {
            holds(&format!("subject,predicate,object,object_is_literal,object_kind\nAnn,is,{line}\n")).object
        };
        let entity = |name: &str| Object::Entity(name.parse().unwrap());

        assert_eq!(object("Bonn"), entity("Bonn"));
        assert_eq!(object("漢字"), entity("漢字"));
        assert_eq!(object("42"), Object::Literal("42".into()));
        assert_eq!(object("2024-05-01,,"), Object::Literal("2024-05-01".into()));
        assert_eq!(object("🦊"), Object::Literal("🦊".into()));
        assert_eq!(object(&"x".repeat(201)), Object::Literal("x".repeat(201)));
        assert_eq!(object(" Bonn ,TRUE"), Object::Literal(" Bonn ".into()));
        assert_eq!(object("42,no"), entity("42"));
        assert_eq!(object("1984,,event"), entity("1984"));
    }

    #[test]
    fn a_kind_is_told_once_and_again_when_it_is_another() {
        check(
            "subject,predicate,object,subject_kind,object_kind\nAnn,lives in,Bonn,person,Place\nAnn,likes,Bonn,person,place\n\
             Ann,likes,Rex,other,animal\nAnn,likes,Rex,,person",
            &[
                "2: Ann lives in Bonn.",
                "2: Ann is of the kind person.",
                "2: Bonn is of the kind place.",
                "3: Ann likes Bonn.",
                "4: Ann likes Rex.",
                "4: Rex is of the kind animal.",
                "5: Ann likes Rex.",
                "5: Rex is of the kind person.",
            ],
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_says_why_and_the_rest_goes_on() {
        check(
            "subject,predicate,object,valid_from,valid_to,confidence,object_is_literal,subject_kind\n\
             ,uses,b\n--,uses,b\na,,b\na,u$es,b\na,uses\na,uses,A\na,uses,b,2024-02-30\na,uses,b,,soon\n\
             a,uses,b,2024-01,2024\na,uses,b,,,0\na,uses,b,,,NaN\na,uses,b,,,,maybe\na,uses,b,,,,,robot\n\
             a,uses,b,,,,,,more\na,uses,**,,,,false\na,uses,b",
            &[
                "2 unreadable: subject: the name of an entity has a letter or a digit",
                "3 unreadable: subject: the name of an entity has a letter or a digit",
                "4 unreadable: predicate: a predicate must not be empty",
                "5 unreadable: predicate: a predicate is made of letters, digits and '_'",
                "6 unreadable: object: must not be blank",
                "7 unreadable: object is the subject itself: a fact links an entity to another one, or to a value",
                "8 unreadable: valid_from: \"2024-02-30\" is not a time: \
                 write 2024-05-01T18:30:00Z, 2024-05-01, 2024-05 or 2024",
                "9 unreadable: valid_to: \"soon\" is not a time: \
                 write 2024-05-01T18:30:00Z, 2024-05-01, 2024-05 or 2024",
                "10 unreadable: valid_to: must be later than valid_from",
                "11 unreadable: confidence: \"0\" is not a number above 0, at most 1",
                "12 unreadable: confidence: \"NaN\" is not a number above 0, at most 1",
                "13 unreadable: object_is_literal: \"maybe\" is neither true nor false",
                "14 unreadable: subject_kind: \"robot\" is none of person, organisation, place, project, technology, \
                 event, animal, other",
                "15 unreadable: has more than 8 fields: a value with a comma in it stands in quotes",
                "16 unreadable: object: the name of an entity has a letter or a digit",
                "17: a uses b.",
            ],
        );
    }

    #[test]
    fn lines_that_are_not_utf_8_or_too_long_are_unreadable_alone() {
        let mut text = b"subject,predicate,object\na,uses,\xff\xfe\nb,uses,c\n".to_vec();
        text.extend(b"d,uses,\"".iter().chain(vec![b'x'; LONGEST_LINE + 1].iter()).chain(b"\"\ne,uses,f\n"));

        let says: Vec<_> = lines(&text).into_iter().map(|line| (line.number, line.says)).collect();

        assert_eq!(says.len(), 4);
        assert_eq!(says[0], (2, Says::Unreadable("is not UTF-8".into())));
        assert!(matches!(says[1], (3, Says::Statements(_))));
        assert_eq!(says[2], (4, Says::Unreadable("is longer than 1 MiB: is a quote left open?".into())));
        assert!(matches!(says[3], (5, Says::Statements(_))));
    }

    #[test]
    fn a_byte_order_mark_and_line_ends_of_any_kind_are_passed_over() {
        check("\u{feff}\r\n\r\nsubject,predicate,object\r\nAnn,lives in,Bonn\r\n", &["4: Ann lives in Bonn."]);
        check("\u{feff}\"subject\",predicate,object\rAnn,lives in,Bonn\r", &["2: Ann lives in Bonn."]);
    }

    #[test]
    fn the_same_line_twice_says_the_same_twice() {
        check("subject,predicate,object\na,uses,b\na,uses,b", &["2: a uses b.", "3: a uses b."]);
    }

    #[test]
    fn a_hundred_thousand_lines_are_read() {
        let mut text = "subject,predicate,object,object_kind\n".to_owned();
        (0..100_000).for_each(|n| text += &format!("entity {n},uses,entity {},project\n", n + 1));

        let statements: usize = super::super::read(ImportFormat::Csv, text.as_bytes())
            .unwrap()
            .map(|line| match line.unwrap().says {
                Says::Statements(statements) => statements.len(),
                other => panic!("{other:?}"),
            })
            .sum();

        assert_eq!(statements, 200_000);
    }

    #[test]
    fn since_when_something_is_known_is_no_start_that_was_said() {
        let columns = "subject,predicate,object,valid_from,valid_to,valid_from_is_said";
        let told = |line: &str| match lines(format!("{columns}\nAnn,lives_in,Bonn,{line}").as_bytes()).remove(0).says {
            Says::Statements(mut statements) => match statements.remove(0) {
                Stated { statement: Statement::Holds(Holds { from, until, .. }), occurred_at } => {
                    [from, until, occurred_at].map(|at| at.map_or(0, |at| chrono::Datelike::year(&at)))
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };

        assert_eq!(told("2020,2022,false"), [0, 2022, 2020]);
        assert_eq!(told("2020,,No"), [0, 0, 2020]);
        assert_eq!(told("2020,2022,true"), [2020, 2022, 0]);
        assert_eq!(told("2020,2022,"), [2020, 2022, 0]);
        assert_eq!(told(",2022,false"), [0, 2022, 0]);
        check(
            &format!("{columns}\nAnn,lives_in,Bonn,2020,2019,false\nAnn,lives_in,Bonn,0000,,false\nAnn,is,b,,,so"),
            &[
                "2 unreadable: valid_to: must be later than valid_from",
                "3 unreadable: from is a moment in a year from 1 to 9999",
                "4 unreadable: valid_from_is_said: \"so\" is neither true nor false",
            ],
        );
    }

    #[test]
    fn what_was_exported_is_read_back_as_the_same_facts() {
        let mut graph = export::sample::hard();
        graph.facts.extend(export::sample::graph(&[("Ann", "age", "=42"), ("Ann", "likes", "=Bonn")]).facts);
        // Every second start is one that nobody said.
        (0..).zip(&mut graph.facts).for_each(|(number, fact)| fact.from_is_said = number % 2 == 0);
        let both: Vec<(ExportFormat, ImportFormat)> =
            ExportFormat::ALL.into_iter().filter_map(|format| Some((format, format.as_str().parse().ok()?))).collect();
        assert!(!both.is_empty());
        for (written, format) in both {
            let mut text = Vec::new();
            export::write(&graph, written, &mut text).unwrap();

            let mut read = Vec::new();
            for line in super::super::read(format, text.as_slice()).unwrap().map(Result::unwrap) {
                let Says::Statements(statements) = line.says else { panic!("{line:?}") };
                read.extend(statements);
            }

            let facts: Vec<Stated> = graph.facts.iter().map(as_told).collect();
            let told = read.iter().filter(|told| matches!(told.statement, Statement::Holds(_)));
            assert_eq!(told.cloned().collect::<Vec<_>>(), facts);
            for entity in graph.facts.iter().map(|fact| &fact.subject) {
                let kind = Statement::Kind { name: entity.name.clone(), kind: entity.kind };
                assert!(read.contains(&kind.clone().into()), "{kind:?}");
            }
        }
    }

    fn as_told(fact: &Fact) -> Stated {
        let holds = Holds {
            subject: fact.subject.name.clone(),
            predicate: fact.predicate.clone(),
            object: match &fact.object {
                FactObject::Entity(entity) => Object::Entity(entity.name.clone()),
                FactObject::Literal(text) => Object::Literal(text.clone()),
            },
            from: fact.from_is_said.then_some(fact.valid_from),
            until: fact.valid_to,
            confidence: fact.confidence,
            corrects: false,
        };
        Stated { statement: Statement::Holds(holds), occurred_at: (!fact.from_is_said).then_some(fact.valid_from) }
    }

    #[test]
    fn a_fact_that_was_taken_back_is_not_told_again() {
        let mut graph = export::sample::graph(&[("Ann", "lives_in", "Bonn"), ("Ann", "lives_in", "Bremen")]);
        graph.facts[0].retracted_at = Some(graph.facts[0].recorded_at);
        let mut text = Vec::new();
        export::write(&graph, ExportFormat::Csv, &mut text).unwrap();

        let lines = lines(&text);

        assert_eq!(lines[0], ImportLine { number: 2, says: Says::Nothing("was taken back") });
        assert!(matches!(lines[1].says, Says::Statements(_)));
    }
}
