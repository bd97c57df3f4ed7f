//! The columns of a CSV file, by their names in its first line.

use super::ImportError;
use crate::facts::export::COLUMNS;

/// Which column holds what.
pub(super) struct Columns(Vec<Column>);

impl Columns {
    pub(super) fn named<'a>(names: impl Iterator<Item = &'a [u8]>) -> Result<Self, ImportError> {
        let mut columns = Vec::new();
        for name in names {
            let name = str::from_utf8(name).map_err(|_| refused("is not UTF-8"))?;
            let column = Column::named(name).ok_or_else(|| {
                let short: String = name.chars().take(40).collect();
                refused(format!("has a column {short:?} that is not known"))
            })?;
            if column != Column::PassedOver && columns.contains(&column) {
                return Err(refused(format!("names {} twice", name.trim())));
            }
            columns.push(column);
        }
        for (needed, name) in
            [(Column::Subject, "subject"), (Column::Predicate, "predicate"), (Column::Object, "object")]
        {
            if !columns.contains(&needed) {
                return Err(refused(format!("has no column {name}")));
            }
        }
        Ok(Self(columns))
    }

    pub(super) fn row<'a>(&self, mut fields: impl Iterator<Item = &'a [u8]>) -> Result<Row<'a>, String> {
        let mut row = Row::default();
        for column in &self.0 {
            let Some(field) = fields.next() else { break };
            let field = str::from_utf8(field).map_err(|_| "is not UTF-8".to_owned())?;
            match column {
                Column::Subject => row.subject = field,
                Column::Predicate => row.predicate = field,
                Column::Object => row.object = field,
                Column::ObjectIsLiteral => row.object_is_literal = field.trim(),
                Column::ValidFrom => row.valid_from = field,
                Column::ValidFromIsSaid => row.valid_from_is_said = field.trim(),
                Column::ValidTo => row.valid_to = field,
                Column::Confidence => row.confidence = field.trim(),
                Column::SubjectKind => row.subject_kind = field.trim(),
                Column::ObjectKind => row.object_kind = field.trim(),
                Column::RetractedAt => row.retracted_at = field.trim(),
                Column::PassedOver => {}
            }
        }
        if fields.any(|field| !field.trim_ascii().is_empty()) {
            let columns = self.0.len();
            return Err(format!("has more than {columns} fields: a value with a comma in it stands in quotes"));
        }
        Ok(row)
    }
}

/// A line, field by field; those that are missing are blank.
#[derive(Default)]
pub(super) struct Row<'a> {
    pub(super) subject: &'a str,
    pub(super) predicate: &'a str,
    pub(super) object: &'a str,
    pub(super) object_is_literal: &'a str,
    pub(super) valid_from: &'a str,
    pub(super) valid_from_is_said: &'a str,
    pub(super) valid_to: &'a str,
    pub(super) confidence: &'a str,
    pub(super) subject_kind: &'a str,
    pub(super) object_kind: &'a str,
    pub(super) retracted_at: &'a str,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Subject,
    Predicate,
    Object,
    ObjectIsLiteral,
    ValidFrom,
    ValidFromIsSaid,
    ValidTo,
    Confidence,
    SubjectKind,
    ObjectKind,
    RetractedAt,
    PassedOver,
}

impl Column {
    /// The column of that name, whatever its case, with spaces or `-` for `_`.
    fn named(name: &str) -> Option<Self> {
        let name = name.trim().to_lowercase().replace([' ', '-'], "_");
        Some(match name.as_str() {
            "subject" => Self::Subject,
            "predicate" => Self::Predicate,
            "object" => Self::Object,
            "object_is_literal" => Self::ObjectIsLiteral,
            "valid_from" | "from" => Self::ValidFrom,
            "valid_from_is_said" => Self::ValidFromIsSaid,
            "valid_to" | "until" => Self::ValidTo,
            "confidence" => Self::Confidence,
            "subject_kind" => Self::SubjectKind,
            "object_kind" => Self::ObjectKind,
            "retracted_at" => Self::RetractedAt,
            name if COLUMNS.contains(&name) => Self::PassedOver,
            _ => return None,
        })
    }
}

/// Why the first line is not the names of columns.
pub(super) fn refused(why: impl std::fmt::Display) -> ImportError {
    ImportError::Refused(format!(
        "the first line {why}; it names the columns: subject,predicate,object and, if wanted, valid_from,valid_to,confidence,subject_kind,object_kind,object_is_literal"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{ImportFormat, LONGEST_LINE, read};
    use super::*;

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        match read(ImportFormat::Csv, text.as_bytes()) {
            Err(ImportError::Refused(why)) => assert!(why.contains(expected), "{why}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{text:?} was read"),
        }
    }

    #[test]
    fn a_file_without_the_columns_that_are_needed_is_refused() {
        check_refused("Ann,lives_in,Bonn\n", "has a column \"Ann\" that is not known; it names the columns: subject,");
        check_refused("subject,predicate\n", "has no column object");
        check_refused("subject,predicate,object,Subject\n", "names Subject twice");
        check_refused("subject,predicate,object,valid_from,from\n", "names from twice");
        check_refused("subject,predicate,object,valid_form\n", "\"valid_form\" that is not known");
        check_refused("subject,predicate,object,\n", "has a column \"\" that is not known");
        check_refused(
            &format!("subject,{}", "x".repeat(9_000)),
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" that is not",
        );
        check_refused(&format!("\"{}", "x".repeat(LONGEST_LINE + 1)), "is longer than");
    }
}
