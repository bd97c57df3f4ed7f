//! Lines of a file, each no longer than can be held.

use std::io::{self, BufRead};

/// What came of reading one line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// It is in the buffer, without its line end.
    Read,
    /// It has this many bytes and was skipped.
    TooLong(u64),
    /// There are no more.
    End,
}

/// Reads the next line into `buffer`, or past it when it has more than `longest` bytes.
///
/// # Errors
///
/// When `reader` fails.
pub fn next_line(reader: &mut dyn BufRead, buffer: &mut Vec<u8>, longest: usize) -> io::Result<Line> {
    buffer.clear();
    let mut bytes = 0_u64;
    loop {
        let ready = match reader.fill_buf() {
            Ok(ready) => ready,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if ready.is_empty() {
            return Ok(match bytes {
                0 => Line::End,
                _ if bytes > longest as u64 => Line::TooLong(bytes),
                _ => Line::Read,
            });
        }
        let (piece, ended) = match ready.iter().position(|&byte| byte == b'\n') {
            Some(end) => (&ready[..end], true),
            None => (ready, false),
        };
        bytes += piece.len() as u64;
        if bytes <= longest as u64 {
            buffer.extend_from_slice(piece);
        } else {
            // The memory is wanted for the lines that can be read.
            *buffer = Vec::new();
        }
        let used = piece.len() + usize::from(ended);
        reader.consume(used);
        if ended {
            return Ok(if bytes > longest as u64 { Line::TooLong(bytes) } else { Line::Read });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, longest: usize, expected: &[&str]) {
        // A buffer of three bytes, so that lines come in pieces.
        let mut reader = io::BufReader::with_capacity(3, text.as_bytes());
        let (mut buffer, mut seen) = (Vec::new(), Vec::new());
        loop {
            match next_line(&mut reader, &mut buffer, longest).unwrap() {
                Line::Read => seen.push(String::from_utf8(buffer.clone()).unwrap()),
                Line::TooLong(bytes) => seen.push(format!("<{bytes}>")),
                Line::End => break,
            }
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn lines_come_one_by_one_with_or_without_a_last_line_end() {
        check("", 100, &[]);
        check("one\ntwo\n", 100, &["one", "two"]);
        check("one\n\nthree", 100, &["one", "", "three"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_whole() {
        check("0123456789\nshort\n", 5, &["<10>", "short"]);
        check("short\n0123456789", 5, &["short", "<10>"]);
    }
}
