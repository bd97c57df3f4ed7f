//! Our own statements: one in JSON on each line, perhaps with when it was said.

use std::io::{self, BufRead, Write};

use chrono::SecondsFormat;
use serde_json::{Map, Value};

use super::{ImportError, ImportLine, LONGEST_LINE, Says, Stated, until_it_breaks};
use crate::reading::{Line, next_line, written_moment};

/// What tells beside a statement when it was said.
const OCCURRED_AT: &str = "occurred_at";

/// Writes `told` as a line that is read as the same again.
///
/// # Errors
///
/// When `out` takes no more.
pub fn write_stated(told: &Stated, out: &mut dyn Write) -> io::Result<()> {
    let mut line = serde_json::to_value(&told.statement)?;
    if let (Some(fields), Some(at)) = (line.as_object_mut(), told.occurred_at) {
        fields.insert(OCCURRED_AT.into(), at.to_rfc3339_opts(SecondsFormat::AutoSi, true).into());
    }
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

/// The lines of `input`.
pub(super) fn read(mut input: impl BufRead) -> impl Iterator<Item = Result<ImportLine, ImportError>> {
    let (mut number, mut buffer) = (0, Vec::new());
    until_it_breaks(move || {
        loop {
            number += 1;
            let says = match next_line(&mut input, &mut buffer, LONGEST_LINE)? {
                Line::End => return Ok(None),
                Line::Read if buffer.trim_ascii().is_empty() => continue,
                Line::Read => parse(&buffer),
                Line::TooLong(bytes) => {
                    let most = LONGEST_LINE / (1024 * 1024);
                    Says::Unreadable(format!("has {bytes} bytes; a line has at most {most} MiB"))
                }
            };
            return Ok(Some(ImportLine { number, says }));
        }
    })
}

fn parse(line: &[u8]) -> Says {
    match stated(line).and_then(|told| told.check().map(|()| told)) {
        Ok(told) => Says::Statements(vec![told]),
        // The parser counts lines too, and would always speak of the first.
        Err(why) => Says::Unreadable(why.replace(" at line 1 column", " at column")),
    }
}

fn stated(line: &[u8]) -> Result<Stated, String> {
    let line = str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    let mut fields: Map<String, Value> = serde_json::from_str(line).map_err(|bad| bad.to_string())?;
    let occurred_at = match fields.remove(OCCURRED_AT) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(written_moment(&text).ok_or_else(|| no_moment(&text))?),
        Some(other) => return Err(no_moment(&other.to_string())),
    };
    let statement = serde_json::from_value(Value::Object(fields)).map_err(|bad| bad.to_string())?;
    Ok(Stated { statement, occurred_at })
}

fn no_moment(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("{OCCURRED_AT}: {short:?} is no moment, such as 2024-05-01T18:30:00Z")
}

#[cfg(test)]
mod tests {
    use skymem_core::facts::Statement;

    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let said = match read(line.as_bytes()).map(Result::unwrap).next().unwrap().says {
            Says::Statements(statements) => statements[0].statement.to_string(),
            Says::Nothing(why) => why.to_owned(),
            Says::Unreadable(why) => why,
        };
        assert!(said.contains(expected), "{line}: {said}");
    }

    #[test]
    fn a_line_is_a_statement_or_is_told_why_not() {
        check(
            r#"{"says": "holds", "subject": "Ann", "predicate": "Lives in", "object": {"entity": "Bonn"}}"#,
            "Ann lives in Bonn.",
        );
        check(r#"{"says": "same", "name": "Robert", "alias": "Bob"}"#, "Bob is Robert.");
        check(r#"{"says": "same", "name": "Bob", "alias": "bob"}"#, "alias is the same name");
        check(r#"{"says": "holds", "subject": "Ann", "predicate": "age"}"#, "missing field `object`");
        check(r#"{"says": "shouts"}"#, "unknown variant `shouts`");
        check(r#"{"says": "kind", "name": "!", "kind": "person"}"#, "has a letter or a digit");
        check("subject,predicate,object", "expected value at column 1");
    }

    #[test]
    fn what_is_written_is_read_as_it_was_with_when_it_was_said() {
        let statement: Statement = serde_json::from_str(
            r#"{"says": "holds", "subject": "Ann", "predicate": "age", "object": {"literal": "4\n2"}, "confidence": 0.1}"#,
        )
        .unwrap();
        for occurred_at in [None, written_moment("2024-05-01T18:30:00.123456Z")] {
            let told = Stated { statement: statement.clone(), occurred_at };
            let mut text = Vec::new();
            write_stated(&told, &mut text).unwrap();

            let lines: Vec<Says> = read(text.as_slice()).map(|line| line.unwrap().says).collect();

            assert_eq!(lines, [Says::Statements(vec![told])]);
        }
    }

    #[test]
    fn a_moment_that_is_none_is_named() {
        let line = |at: &str| format!(r#"{{"says": "kind", "name": "Ann", "kind": "person", "occurred_at": {at}}}"#);
        check(&line("\"soon\""), "occurred_at: \"soon\" is no moment");
        check(&line("7"), "occurred_at: \"7\" is no moment");
        check(&line("\"0000-01-01T00:00:00Z\""), "occurred_at is a moment in a year from 1 to 9999");
        check(&line("null"), "Ann is of the kind person.");
    }

    #[test]
    fn lines_keep_their_numbers() {
        let kind = r#"{"says": "kind", "name": "Ann", "kind": "person"}"#;
        let text = format!("\n{kind}\r\n\n{kind}");

        let numbers: Vec<u64> = read(text.as_bytes()).map(|line| line.unwrap().number).collect();

        assert_eq!(numbers, [2, 4]);
    }
}
