//! Server-sent events out of bytes that come in pieces cut anywhere. Pure.

/// Reads a stream of events piece by piece.
///
/// Lines end with LF, CR or CRLF; a line that begins with a colon is a comment; the `data` lines of an event are joined
/// with LF. Other fields are read over: chat models do not use them. What is not UTF-8 is read with replacement
/// characters. Memory is bounded: of an event that is too large the data is dropped.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
    /// The event at hand is too large to be kept.
    overflown: bool,
}

/// No honest event is larger.
const LARGEST_EVENT_BYTES: usize = 4 << 20;

impl Events {
    /// Reads one more piece; `each` gets the data of every event that ends in it.
    pub(crate) fn read(&mut self, piece: &[u8], mut each: impl FnMut(&str)) {
        for &byte in piece {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\r' | b'\n' => {
                    self.after_cr = byte == b'\r';
                    self.end_line(&mut each);
                }
                byte => {
                    self.after_cr = false;
                    self.keep(byte);
                }
            }
        }
    }

    /// The stream has ended; an event that nobody closed counts too: what was said was said.
    pub(crate) fn end(mut self, mut each: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(&mut each);
        }
        self.end_event(&mut each);
    }

    fn keep(&mut self, byte: u8) {
        if self.line.len() + self.data.as_ref().map_or(0, Vec::len) >= LARGEST_EVENT_BYTES {
            self.overflown = true;
            self.line.clear();
            self.data = None;
        }
        // The rest of its line must still be seen to have been one.
        if !self.overflown || self.line.is_empty() {
            self.line.push(byte);
        }
    }

    fn end_line(&mut self, each: &mut impl FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        let line = match self.begun {
            false => line.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(&line),
            true => &line,
        };
        self.begun = true;
        if line.is_empty() {
            self.end_event(each);
            return;
        }
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (line.get(..colon).unwrap_or_default(), line.get(colon + 1..).unwrap_or_default()),
            None => (line, &[][..]),
        };
        if name != b"data" || self.overflown {
            return;
        }
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
    }

    fn end_event(&mut self, each: &mut impl FnMut(&str)) {
        let overflown = std::mem::take(&mut self.overflown);
        if let Some(data) = self.data.take().filter(|_| !overflown) {
            each(&String::from_utf8_lossy(&data));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut read = Vec::new();
        let mut events = Events::default();
        for piece in pieces {
            events.read(piece, |data| read.push(data.to_owned()));
        }
        events.end(|data| read.push(data.to_owned()));
        read
    }

    fn check(stream: &str, expected: &[&str]) {
        assert_eq!(events([stream.as_bytes()]), expected, "{stream:?}");
        assert_eq!(events(stream.as_bytes().chunks(1)), expected, "{stream:?}, a byte at a time");
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        check("data: one\n\ndata: two\n\n", &["one", "two"]);
        check("data:one\r\n\r\ndata: two\r\rdata:  three\n\n", &["one", "two", " three"]);
        check(": keep-alive\n\ndata: one\n: hush\n\n", &["one"]);
        check("data: a\ndata: b\ndata\n\n", &["a\nb\n"]);
        check("event: delta\nid: 7\nretry: 5\ndata: {}\n\n", &["{}"]);
        check("\u{FEFF}data: one\n\n", &["one"]);
        check("datum: one\n\ndata : two\n\n", &[]);
        check("\n\n\r\n", &[]);
        check("data: 昨天 🎉\n\ndata: [DONE]\n\n", &["昨天 🎉", "[DONE]"]);
    }

    #[test]
    fn a_stream_that_breaks_off_is_read_to_its_end() {
        check("data: one\n\ndata: tw", &["one", "tw"]);
        check("data: one", &["one"]);
        check("data: one\r", &["one"]);
        check("dat", &[]);
        check("", &[]);
    }

    #[test]
    fn an_event_without_end_fills_no_memory_and_the_next_is_read() {
        let mut read = Vec::new();
        let mut events = Events::default();
        events.read(b"data: ", |_| {});
        for _ in 0..(3 * LARGEST_EVENT_BYTES / 1_000) {
            events.read(&[b'x'; 1_000], |_| {});
        }
        assert!(events.line.len() <= LARGEST_EVENT_BYTES);
        events.read(b"\ndata: more\n\ndata: next\n\n", |data| read.push(data.to_owned()));

        assert_eq!(read, ["next"]);
    }

    #[test]
    fn what_is_not_utf8_harms_nothing() {
        assert_eq!(events([&b"data: a\xff\xfeb\n\n\x80\x81: \xf0\n\ndata: c\n\n"[..]]), ["a\u{FFFD}\u{FFFD}b", "c"]);
    }

    proptest! {
        #[test]
        fn the_borders_of_pieces_change_nothing(
            texts in prop::collection::vec("[a-z昨天é🎉 :]{0,12}", 0..8),
            endings in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\r"]), 8),
            cuts in prop::collection::vec(1_usize..9, 1..40),
        ) {
            let mut stream = String::new();
            for (text, ending) in texts.iter().zip(&endings) {
                stream.push_str(&format!(": hush{ending}data: {text}{ending}{ending}"));
            }
            let bytes = stream.as_bytes();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.iter().cycle() {
                if from >= bytes.len() {
                    break;
                }
                let to = (from + cut).min(bytes.len());
                pieces.push(&bytes[from..to]);
                from = to;
            }

            prop_assert_eq!(events(pieces), texts);
        }

        #[test]
        fn garbage_is_read_without_a_fault(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let whole: Vec<u8> = pieces.concat();

            let cut = events(pieces.iter().map(Vec::as_slice));

            prop_assert_eq!(cut, events([whole.as_slice()]));
        }
    }
}
