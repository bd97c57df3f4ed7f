//! What a command has to say: once, as text for people or as JSON for programs.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde_json::Value;

/// The outcome of a command.
pub(crate) struct Outcome {
    text: String,
    json: Value,
    exit: u8,
}

impl Outcome {
    /// It worked: `text` for people, `json` for programs.
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, exit: 0 }
    }

    /// It ran to its end, and what it found counts as a failure when `failed`.
    pub(crate) fn failed_if(self, failed: bool) -> Self {
        self.ending_with(u8::from(failed))
    }

    /// It ran to its end, which the program tells by this exit code.
    pub(crate) fn ending_with(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }

    /// Prints it; answers the exit code.
    pub(crate) fn print(&self, as_json: bool) -> u8 {
        let said = match as_json {
            true => say(&format!("{:#}", self.json)),
            false => say(self.text.trim_end()),
        };
        if said { self.exit } else { self.exit.max(1) }
    }
}

/// Writes a line, or several, to standard output; answers whether it could. Whoever closed it (`| head`) has read
/// enough: that is no error.
pub(crate) fn say(text: &str) -> bool {
    say_to(&mut io::stdout().lock(), text)
}

fn say_to(out: &mut dyn Write, text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            note(&format!("skymem: cannot write the answer: {error}"));
            false
        }
        _ => true,
    }
}

/// Writes a line to standard error: progress, warnings, why it failed.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A table without lines.
pub(crate) fn table<const COLUMNS: usize>(heads: [&str; COLUMNS], rows: Vec<[String; COLUMNS]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heads);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    // The table pads its last column with spaces that nobody sees until a line wraps.
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// `12345` as `12,345`.
pub(crate) fn grouped(number: impl Into<i128>) -> String {
    let digits = number.into().to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `3 turns`, `1 turn`.
pub(crate) fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Bytes as people write them.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 1_000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1_000.0;
    }
    format!("{size:.1} TB")
}

/// The text at `pointer`, or nothing.
pub(crate) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at `key`, or an empty one.
pub(crate) fn list_at<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The first words of `text`, on one line.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let mut short: String = line.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A moment to the minute, as lists show it.
pub(crate) fn minute(moment: &str) -> String {
    moment.get(..16).unwrap_or(moment).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes nothing, for this reason.
    struct Full(io::ErrorKind);

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_that_could_not_be_written_is_a_failure_unless_nobody_wants_it() {
        assert!(say_to(&mut Vec::new(), "x"));
        assert!(say_to(&mut Full(io::ErrorKind::BrokenPipe), "x"));
        assert!(!say_to(&mut Full(io::ErrorKind::StorageFull), "x"));
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(-1_234_567), "-1,234,567");
        assert_eq!(counted(1, "turn"), "1 turn");
        assert_eq!(counted(2_000, "turn"), "2,000 turns");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(71_600_000), "71.6 MB");
    }

    #[test]
    fn an_excerpt_is_one_line_and_says_that_it_is_cut() {
        assert_eq!(excerpt("one\n two", 10), "one two");
        assert_eq!(excerpt("one two three", 8), "one two…");
        assert_eq!(excerpt("我喜欢在周末", 4), "我喜欢…");
    }

    #[test]
    fn a_table_has_a_head_and_no_trailing_spaces() {
        let table = table(["ID", "NAME"], vec![["1".into(), "x".into()]]);

        assert!(table.lines().all(|line| line == line.trim_end()), "{table}");
        assert!(table.contains("ID") && table.contains('x'), "{table}");
    }
}
