//! Our own statements: one in JSON on each line.

use std::io::BufRead;

use skymem_core::facts::Statement;

use super::{ImportError, ImportLine, LONGEST_LINE, Says, until_it_breaks};
use crate::reading::{Line, next_line};

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
    let read = match str::from_utf8(line) {
        Ok(line) => serde_json::from_str::<Statement>(line).map_err(|bad| bad.to_string()),
        Err(_) => Err("is not UTF-8".to_owned()),
    };
    match read.and_then(|statement| statement.check().map(|()| statement).map_err(|bad| bad.to_string())) {
        Ok(statement) => Says::Statements(vec![statement]),
        // The parser counts lines too, and would always speak of the first.
        Err(why) => Says::Unreadable(why.replace(" at line 1 column", " at column")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let said = match read(line.as_bytes()).map(Result::unwrap).next().unwrap().says {
            Says::Statements(statements) => statements[0].to_string(),
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
    fn lines_keep_their_numbers() {
        let kind = r#"{"says": "kind", "name": "Ann", "kind": "person"}"#;
        let text = format!("\n{kind}\r\n\n{kind}");

        let numbers: Vec<u64> = read(text.as_bytes()).map(|line| line.unwrap().number).collect();

        assert_eq!(numbers, [2, 4]);
    }
}
