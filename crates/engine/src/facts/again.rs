//! Whether a statement is told again or is news: pure.
//!
//! The same statement told twice in a session is one entry of the journal, so that a request without an answer can be
//! sent again. Unless something told in between says otherwise: who moved from A to B and back to A lives in A anew, and
//! that is another entry. A request whose statements are the session's last ones, in their order, is a repetition too.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use skymem_core::facts::{EntityName, Holds, Object, Predicate, Statement};
use skymem_store::StatedTurn;
use uuid::Uuid;

/// What every client id of a statement begins with.
const TOLD: &str = "stated";
/// The same for what comes from a file of another program.
const IMPORTED: &str = "imported";

/// What the client ids of all statements about the same thing begin with.
pub(super) fn beginning(statement: &Statement) -> String {
    format!("{TOLD}:{}:", about(statement))
}

/// The client id of a statement of an import, said at `said_at` if the file tells: the same line is one entry, whatever was
/// told since. Who imports a file again tells nothing new.
pub(super) fn imported_id(statement: &Statement, said_at: Option<DateTime<Utc>>) -> String {
    format!("{IMPORTED}:{}:{}", about(statement), content(statement, said_at))
}

/// The client id of each statement told at `said_at`, if that was given: that of the entry which it repeats, or a new one.
/// `told` is what the journal has of the same session, oldest first: all about the same things, and the last so many.
pub(super) fn client_ids(
    statements: &[Statement],
    said_at: Option<DateTime<Utc>>,
    told: &[StatedTurn],
    is_single: impl Fn(&Predicate) -> bool,
) -> Vec<String> {
    let marks: Vec<String> = statements
        .iter()
        .map(|statement| format!("{}{}:", beginning(statement), content(statement, said_at)))
        .collect();
    let end = told.len().checked_sub(statements.len()).and_then(|start| told.get(start..)).unwrap_or_default();
    let repeats = |(turn, mark): (&StatedTurn, &String)| turn.client_id.starts_with(mark.as_str());
    if !statements.is_empty() && end.len() == statements.len() && end.iter().zip(&marks).all(repeats) {
        return end.iter().map(|turn| turn.client_id.clone()).collect();
    }

    let mut histories: HashMap<String, Vec<Entry>> = HashMap::new();
    for turn in told {
        if let Some((beginning, _)) =
            turn.client_id.match_indices(':').nth(1).map(|(at, _)| turn.client_id.split_at(at))
        {
            histories.entry(beginning.to_owned()).or_default().push(Entry {
                client_id: turn.client_id.clone(),
                statement: turn.statement.clone().filter(|_| !turn.forgotten),
            });
        }
    }
    let mut ids = Vec::with_capacity(statements.len());
    for (statement, mark) in statements.iter().zip(marks) {
        let history = histories.entry(format!("{TOLD}:{}", about(statement))).or_default();
        let same = |entry: &Entry| entry.client_id.starts_with(&mark);
        let last = history.iter().rposition(same);
        let since = last.and_then(|last| history.get(last + 1..)).unwrap_or_default();
        let is_overtaken = since
            .iter()
            .filter_map(|entry| entry.statement.as_ref())
            .any(|later| says_otherwise(statement, later, &is_single));
        let known = last.and_then(|last| history.get(last)).filter(|_| !is_overtaken);
        let id = match known {
            Some(known) => known.client_id.clone(),
            None => {
                let id = format!("{mark}{:x}", history.iter().filter(|entry| same(entry)).count());
                history.push(Entry { client_id: id.clone(), statement: Some(statement.clone()) });
                id
            }
        };
        ids.push(id);
    }
    ids
}

/// A statement about the same thing that is in the journal, or will be.
struct Entry {
    client_id: String,
    /// What it says, unless it is in the trash.
    statement: Option<Statement>,
}

/// Names what a statement is about.
fn about(statement: &Statement) -> String {
    let fields = match statement {
        Statement::Holds(Holds { subject, predicate, .. })
        | Statement::Ends { subject, predicate, .. }
        | Statement::NeverHeld { subject, predicate, .. } => ["fact", &lower(subject), predicate.as_str()].join("\0"),
        Statement::Same { name, alias: other } | Statement::Apart { name, other, .. } => {
            let (name, other) = (lower(name), lower(other));
            let (first, second) = if name <= other { (name, other) } else { (other, name) };
            ["names", &first, &second].join("\0")
        }
        Statement::Kind { name, .. } => ["kind", &lower(name)].join("\0"),
    };
    digest(fields.as_bytes())
}

/// Names what a statement says, and when it was said, if that was given.
fn content(statement: &Statement, said_at: Option<DateTime<Utc>>) -> String {
    // Postgres keeps microseconds; a time that went through it must still be the same.
    let said_at = said_at.map(|at| at.timestamp_micros());
    digest(serde_json::json!([statement, said_at]).to_string().as_bytes())
}

fn digest(bytes: &[u8]) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, bytes).simple().to_string()
}

fn lower(name: &EntityName) -> String {
    name.as_str().to_lowercase()
}

/// Whether `later`, which is about the same thing, leaves less than before of what `earlier` says: then `earlier`, told
/// once more, is news. What names its own time stays said about that time.
fn says_otherwise(earlier: &Statement, later: &Statement, is_single: &impl Fn(&Predicate) -> bool) -> bool {
    if earlier == later {
        return false;
    }
    match (earlier, later) {
        (Statement::Holds(earlier), Statement::Holds(later)) => {
            let other = !same_object(&earlier.object, &later.object);
            let same_time = earlier.from.is_none() || earlier.from == later.from;
            later.corrects || (other && is_single(&earlier.predicate) && same_time)
        }
        (Statement::Holds(earlier), Statement::Ends { object, .. }) => {
            earlier.from.is_none() && of_value(object.as_ref(), &earlier.object)
        }
        (Statement::Holds(holds), Statement::NeverHeld { object, from, .. })
        | (Statement::NeverHeld { object, from, .. }, Statement::Holds(holds)) => {
            let same_time = from.is_none() || holds.from.is_none() || *from == holds.from;
            same_time && of_value(object.as_ref(), &holds.object)
        }
        (Statement::Ends { object, at: None, .. }, Statement::Holds(later)) => of_value(object.as_ref(), &later.object),
        (Statement::Same { .. }, Statement::Same { .. } | Statement::Apart { .. })
        | (Statement::Apart { .. }, Statement::Same { .. })
        | (Statement::Kind { .. }, Statement::Kind { .. }) => true,
        _ => false,
    }
}

/// Whether a statement about `object`, or about whichever value there is, is about this one.
fn of_value(object: Option<&Object>, value: &Object) -> bool {
    object.is_none_or(|object| same_object(object, value))
}

fn same_object(one: &Object, other: &Object) -> bool {
    one.as_str().to_lowercase() == other.as_str().to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use skymem_core::{ExchangeId, Seq};

    use super::*;

    /// Statements as they are told in one session, one request after the other.
    #[derive(Default)]
    struct Session(Vec<StatedTurn>);

    impl Session {
        /// Tells `statements` in one request; how many of them are new.
        fn tell(&mut self, statements: &[Statement]) -> usize {
            let ids = client_ids(statements, None, &self.0, |predicate| predicate.as_str() == "lives_in");
            let before = self.0.len();
            for (id, statement) in ids.into_iter().zip(statements) {
                match self.0.iter_mut().find(|turn| turn.client_id == id) {
                    Some(known) => known.forgotten = false,
                    None => self.0.push(StatedTurn {
                        seq: Seq(i64::try_from(self.0.len()).unwrap()),
                        exchange: ExchangeId(Uuid::nil()),
                        client_id: id,
                        forgotten: false,
                        statement: Some(statement.clone()),
                    }),
                }
            }
            self.0.len() - before
        }
    }

    fn statement(text: &str) -> Statement {
        let mut words = text.split(' ');
        let (says, value) = (words.next().unwrap(), words.next());
        let from = words.next().map(|year| format!("{year}-01-01T00:00:00Z"));
        let object = value.map(|value| json!({ "entity": value }));
        let body: Value = match says {
            "lives" => {
                json!({ "says": "holds", "subject": "Ann", "predicate": "lives_in", "object": object, "from": from })
            }
            "no," => {
                json!({ "says": "holds", "subject": "Ann", "predicate": "lives_in", "object": object, "from": from,
                             "corrects": true })
            }
            "uses" => json!({ "says": "holds", "subject": "ann", "predicate": "uses", "object": object, "from": from }),
            "left" => {
                json!({ "says": "ends", "subject": "Ann", "predicate": "lives_in", "object": object, "at": from })
            }
            "never" => json!({ "says": "never_held", "subject": "Ann", "predicate": "lives_in", "object": object }),
            "same" => json!({ "says": "same", "name": "Ann", "alias": value }),
            "renamed" => json!({ "says": "same", "name": value, "alias": "Ann" }),
            "apart" => json!({ "says": "apart", "name": "Ann", "other": value, "exchanges": [Uuid::nil()] }),
            "is" => json!({ "says": "kind", "name": "Ann", "kind": value }),
            other => panic!("no statement {other}"),
        };
        serde_json::from_value(body).unwrap()
    }

    /// Tells each of `told` in a request of its own; the last is new or a repetition.
    #[track_caller]
    fn check(told: &[&str], is_new: bool) {
        let mut session = Session::default();
        let outcomes: Vec<usize> = told.iter().map(|text| session.tell(&[statement(text)])).collect();
        assert_eq!(outcomes.last(), Some(&usize::from(is_new)), "{told:?}: {outcomes:?}");
    }

    #[test]
    fn the_same_again_is_one_entry() {
        check(&["lives Bonn", "lives Bonn"], false);
        check(&["lives Bonn 2020", "lives Bonn 2020"], false);
        check(&["lives Bonn", "uses Rust", "lives Bonn"], false);
        check(&["uses Rust", "uses Go", "uses Rust"], false);
        check(&["left Bonn", "left Bonn"], false);
        check(&["never Bonn", "never Bonn"], false);
        check(&["same Annie", "same Nan", "same Annie"], false);
        check(&["lives Bonn 2020", "lives Bremen 2022", "lives Bonn 2020"], false);
        check(&["lives Bonn 2020", "left Bonn 2021", "lives Bonn 2020"], false);
    }

    #[test]
    fn what_became_true_again_is_another_entry() {
        check(&["lives Bonn", "lives Bremen", "lives Bonn"], true);
        check(&["lives Bonn", "lives Bremen", "lives Bonn", "lives Bonn"], false);
        check(&["lives Bonn", "lives Bremen", "lives Bonn", "lives Bremen"], true);
        check(&["lives Bonn", "left Bonn", "lives Bonn"], true);
        check(&["lives Bonn", "left", "lives Bonn"], true);
        check(&["lives Bonn", "left Bremen", "lives Bonn"], false);
        check(&["lives Bonn", "left Bonn", "lives Bonn", "left Bonn"], true);
        check(&["lives Bonn 2020", "never Bonn", "lives Bonn 2020"], true);
        check(&["never Bonn", "lives Bonn", "never Bonn"], true);
        check(&["lives Bonn 2020", "no, Bremen 2020", "lives Bonn 2020"], true);
        check(&["lives Bonn 2020", "no, Bonn 2021", "lives Bonn 2020"], true);
        check(&["same Annie", "renamed Annie", "same Annie"], true);
        check(&["same Annie", "apart Annie", "same Annie"], true);
        check(&["is person", "is animal", "is person"], true);
    }

    #[test]
    fn another_time_is_another_statement() {
        check(&["lives Bonn 2020", "lives Bonn 2021"], true);
        check(&["lives Bonn", "lives Bonn 2021"], true);
        let at = |day: i64| DateTime::from_timestamp(day * 86_400, 0);
        let (bonn, none) = ([statement("lives Bonn")], |_: &Predicate| false);
        assert_ne!(client_ids(&bonn, at(1), &[], none), client_ids(&bonn, at(2), &[], none));
        assert_eq!(client_ids(&bonn, at(1), &[], none), client_ids(&bonn, at(1), &[], none));
    }

    #[test]
    fn what_was_forgotten_comes_back_unless_it_was_overtaken() {
        let mut session = Session::default();
        session.tell(&[statement("lives Bonn")]);
        session.0[0].forgotten = true;
        assert_eq!(session.tell(&[statement("lives Bonn")]), 0);
        assert!(!session.0[0].forgotten);

        session.tell(&[statement("lives Bremen")]);
        session.0[1].forgotten = true;
        assert_eq!(session.tell(&[statement("lives Bonn")]), 0, "what says otherwise is in the trash");
    }

    #[test]
    fn a_request_is_a_repetition_as_a_whole() {
        let moves = ["lives Bonn", "lives Bremen", "lives Bonn"].map(statement);
        let mut session = Session::default();

        assert_eq!(session.tell(&moves), 3);
        assert_eq!(session.tell(&moves), 0);
        assert_eq!(session.tell(&moves[1..]), 0);
        assert_eq!(session.tell(&moves[..2]), 1, "Bonn is where she lives already, Bremen is news");
    }

    #[test]
    fn a_line_of_a_file_is_one_entry_whatever_was_told_since() {
        let bonn = statement("lives Bonn");
        assert_eq!(imported_id(&bonn, None), imported_id(&bonn.clone(), None));
        assert_ne!(imported_id(&bonn, None), imported_id(&statement("lives Bremen"), None));
        assert_ne!(imported_id(&bonn, None), imported_id(&bonn, DateTime::from_timestamp(0, 0)));
        assert!(!imported_id(&bonn, None).starts_with(&beginning(&bonn)));
    }

    proptest! {
        #[test]
        fn a_request_that_says_one_thing_of_each_is_a_repetition_the_second_time(
            told in prop::collection::vec(prop::collection::vec(0..12_usize, 1..5), 1..12),
        ) {
            let texts = ["lives Bonn", "lives Bremen", "lives Bonn 2020", "left Bonn", "left", "never Bonn", "uses Rust",
                         "uses Go", "no, Bonn", "same Annie", "apart Annie", "is person"];
            let mut session = Session::default();
            for request in &told {
                let mut statements: Vec<Statement> = Vec::new();
                for one in request.iter().map(|text| statement(texts[*text])) {
                    if statements.iter().all(|other| beginning(other) != beginning(&one)) {
                        statements.push(one);
                    }
                }
                session.tell(&statements);
                prop_assert_eq!(session.tell(&statements), 0, "{:?}", statements);
            }
        }
    }
}
