//! Records of CSV, one by one, none longer than can be held.
//!
//! A quote that is left open makes one record of all that follows: so records have a longest length, not only lines.

use std::io::{self, BufRead};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::LONGEST_LINE;

/// More columns than anybody has.
const MOST_FIELDS: usize = 256;

/// Reads the records of `input`.
pub(super) struct Records<R> {
    input: R,
    core: Reader,
    /// The bytes of all fields of the present record, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    fields: usize,
    line: Lines,
}

/// What came of reading a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// It begins in this line, and its fields can be asked for.
    Read(u64),
    /// It begins in this line and is longer than can be held, or has too many fields; it was passed over.
    TooLong(u64),
    /// There are no more.
    End,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, delimiter: u8) -> Self {
        let core = ReaderBuilder::new().delimiter(delimiter).build();
        let (bytes, ends) = (vec![0; LONGEST_LINE], vec![0; MOST_FIELDS]);
        Self { input, core, bytes, ends, fields: 0, line: Lines { number: 1, after_return: false } }
    }

    /// Reads the next record.
    pub(super) fn next(&mut self) -> io::Result<Record> {
        self.pass_line_ends()?;
        let begins = self.line.number;
        let (mut bytes, mut fields, mut too_long) = (0, 0, false);
        loop {
            let input = match self.input.fill_buf() {
                Ok(input) => input,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let room = self.bytes.get_mut(bytes..).unwrap_or_default();
            let ends = self.ends.get_mut(fields..).unwrap_or_default();
            let (result, read, written, ended) = self.core.read_record(input, room, ends);
            self.line.pass(input.get(..read).unwrap_or_default());
            self.input.consume(read);
            bytes += written;
            fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    // Read on to its end, over what was read of it.
                    (bytes, fields, too_long) = (0, 0, true);
                }
                ReadRecordResult::Record if too_long => return Ok(Record::TooLong(begins)),
                ReadRecordResult::Record => {
                    self.fields = fields;
                    return Ok(Record::Read(begins));
                }
                ReadRecordResult::End => return Ok(Record::End),
            }
        }
    }

    /// The fields of the record that was read last, in order.
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().take(self.fields).map(move |&end| {
            let field = self.bytes.get(begin..end).unwrap_or_default();
            begin = end;
            field
        })
    }

    /// Passes over what is between two records, so that the next one begins where we are.
    fn pass_line_ends(&mut self) -> io::Result<()> {
        loop {
            let input = self.input.fill_buf()?;
            let ends = input.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            if ends == 0 {
                return Ok(());
            }
            self.line.pass(input.get(..ends).unwrap_or_default());
            self.input.consume(ends);
        }
    }
}

/// Counts lines, however they end.
struct Lines {
    number: u64,
    after_return: bool,
}

impl Lines {
    fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => self.number += 1,
                _ => {}
            }
            self.after_return = *byte == b'\r';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        // Whatever pieces the bytes come in.
        for capacity in [1, 2, 3, 7, 8_192] {
            let mut records = Records::new(io::BufReader::with_capacity(capacity, text.as_bytes()), b',');
            let mut seen = Vec::new();
            loop {
                match records.next().unwrap() {
                    Record::Read(line) => {
                        let fields: Vec<_> = records.fields().map(|field| str::from_utf8(field).unwrap()).collect();
                        seen.push(format!("{line}: {}", fields.join("|")));
                    }
                    Record::TooLong(line) => seen.push(format!("{line}: too long")),
                    Record::End => break,
                }
            }
            assert_eq!(seen, expected, "in pieces of {capacity}");
        }
    }

    #[test]
    fn a_record_knows_the_line_it_begins_in_however_lines_end() {
        check("", &[]);
        check("a,b\nc,d", &["1: a|b", "2: c|d"]);
        check("a,b\r\n\r\nc,d\r\n", &["1: a|b", "3: c|d"]);
        check("a\rb\r\rc\n\n\nd", &["1: a", "2: b", "4: c", "7: d"]);
        check("\n\n\"a\nb\r\nc\",d\r\ne", &["3: a\nb\r\nc|d", "6: e"]);
    }

    #[test]
    fn quotes_hold_commas_line_ends_and_quotes() {
        check("\"a,\"\"b\"\"\",\"\",c\n", &["1: a,\"b\"||c"]);
        check("a\"b,c\n", &["1: a\"b|c"]);
        check("\"left open\nto the end", &["1: left open\nto the end"]);
    }

    #[test]
    fn a_record_that_is_too_long_is_passed_over_and_the_next_one_is_whole() {
        let long = "x".repeat(LONGEST_LINE + 1);
        let fits = "x".repeat(LONGEST_LINE - 2);
        let text = format!("a,b\n{long},b\nc,\"{long}\n{long}\n\"\n{fits},d\n{}\ne", ",".repeat(300));

        let mut records = Records::new(text.as_bytes(), b',');
        let mut seen = Vec::new();
        loop {
            match records.next().unwrap() {
                Record::Read(line) => seen.push((line, records.fields().map(<[u8]>::len).collect())),
                Record::TooLong(line) => seen.push((line, vec![])),
                Record::End => break,
            }
        }
        let expected: [(u64, Vec<usize>); 6] =
            [(1, vec![1, 1]), (2, vec![]), (3, vec![]), (6, vec![fits.len(), 1]), (7, vec![]), (8, vec![1])];
        assert_eq!(seen, expected);
    }
}
