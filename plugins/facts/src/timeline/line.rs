//! Values that exclude each other, along the time in which they hold: all of a single-valued predicate, or one of many.

use chrono::{DateTime, Utc};

use super::{End, Entry, Kind, Span, before};

/// What held when, in order. No two segments overlap: each ends where it is said to, or where the next begins.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    segments: Vec<Segment>,
    /// The entries that were applied, in the order in which they were said.
    entries: Vec<usize>,
    /// What began at the very moment at which something else began that was said later, and when that was written down.
    pub(super) replaced: Vec<(Segment, DateTime<Utc>)>,
}

/// A value, and the time in which it holds.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) object: u32,
    pub(super) from: DateTime<Utc>,
    pub(super) from_is_said: bool,
    /// When it is said to end; the next segment may end it sooner.
    pub(super) end: Option<DateTime<Utc>>,
    /// What supports it; never empty.
    pub(super) entries: Vec<usize>,
}

impl Segment {
    pub(super) fn span(&self) -> Span {
        let Self { object, from, from_is_said, end: until, .. } = *self;
        Span { object, from, from_is_said, until, is_over: false }
    }
}

impl Line {
    /// Takes one more entry in, the latest that was said.
    pub(super) fn add(&mut self, entry: usize, entries: &[Entry]) {
        self.entries.push(entry);
        self.apply(entry, entries);
    }

    /// Takes all its entries in anew, without those that were taken back.
    pub(super) fn build(&mut self, entries: &[Entry]) {
        self.segments.clear();
        self.replaced.clear();
        self.entries.retain(|entry| entries.get(*entry).is_some_and(|entry| entry.alive));
        for entry in self.entries.clone() {
            self.apply(entry, entries);
        }
    }

    /// Each segment with its end.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Segment, Option<DateTime<Utc>>)> {
        self.segments.iter().enumerate().map(|(place, segment)| (segment, self.to(place)))
    }

    /// Whether a value holds at a moment.
    pub(super) fn holds(&self, object: u32, at: DateTime<Utc>) -> bool {
        self.at(at).and_then(|place| self.segments.get(place)).is_some_and(|segment| segment.object == object)
    }

    /// The last segment that an entry supports.
    pub(super) fn segment_of(&self, entry: usize) -> Option<&Segment> {
        self.segments.iter().rev().find(|segment| segment.entries.contains(&entry))
    }

    fn apply(&mut self, entry: usize, entries: &[Entry]) {
        let Some(said) = entries.get(entry) else { return };
        match said.kind {
            Kind::Hold(Span { object, until: Some(at), is_over: true, .. }) => {
                self.end(End { object: Some(object), at, at_is_said: true, late: true }, entry, entries);
            }
            Kind::Hold(span) => self.hold(span, entry, entries),
            Kind::End(end) => self.end(end, entry, entries),
        }
    }

    /// The end of the segment at `place`.
    fn to(&self, place: usize) -> Option<DateTime<Utc>> {
        let end = self.segments.get(place).and_then(|segment| segment.end);
        let next = self.segments.get(place + 1).map(|segment| segment.from);
        [end, next].into_iter().flatten().min()
    }

    /// The place of the segment that holds at a moment.
    fn at(&self, moment: DateTime<Utc>) -> Option<usize> {
        let place = self.begun(moment).checked_sub(1)?;
        self.to(place).is_none_or(|to| moment < to).then_some(place)
    }

    /// How many segments have begun by a moment.
    fn begun(&self, by: DateTime<Utc>) -> usize {
        self.segments.partition_point(|segment| segment.from <= by)
    }

    fn hold(&mut self, span: Span, entry: usize, entries: &[Entry]) {
        let holds = self.at(span.from);
        if let Some(segment) = holds.and_then(|place| self.segments.get_mut(place))
            && segment.object == span.object
        {
            segment.from_is_said |= span.from_is_said && span.from == segment.from;
            segment.end = span.until.or(segment.end);
            segment.entries.push(entry);
            return;
        }
        let next = self.begun(span.from);
        let reaches =
            |segment: &Segment| segment.object == span.object && span.until.is_none_or(|until| segment.from < until);
        if self.segments.get(next).is_some_and(reaches) {
            if let Some(segment) = self.segments.get_mut(next) {
                (segment.from, segment.from_is_said) = (span.from, span.from_is_said);
                segment.end = span.until.or(segment.end);
                segment.entries.push(entry);
            }
            self.clear_place(holds, span.from, entry, entries);
            return;
        }
        let resumed = holds.and_then(|place| self.resumed(place, span, entries));
        let new = Segment {
            object: span.object,
            from: span.from,
            from_is_said: span.from_is_said,
            end: span.until,
            entries: vec![entry],
        };
        self.segments.splice(next..next, [new].into_iter().chain(resumed));
        self.clear_place(holds, span.from, entry, entries);
    }

    /// What goes on when `span`, which is within the segment at `place`, is over: that segment, if it was said to hold
    /// later than that.
    fn resumed(&self, place: usize, span: Span, entries: &[Entry]) -> Option<Segment> {
        let segment = self.segments.get(place)?;
        let until = span.until.filter(|until| self.to(place).is_none_or(|to| *until < to))?;
        let later = |entry: &&usize| {
            entries.get(**entry).is_some_and(|entry| match entry.kind {
                Kind::Hold(span) => span.until.map_or(until <= entry.said_at, |end| until < end),
                Kind::End(End { at, .. }) => until < at,
            })
        };
        let entries: Vec<usize> = segment.entries.iter().filter(later).copied().collect();
        let resumed = Segment { from: until, from_is_said: true, entries, ..segment.clone() };
        (!resumed.entries.is_empty()).then_some(resumed)
    }

    /// Removes the segment that began at the very moment at which `entry` lets another begin: what was said last is right.
    fn clear_place(&mut self, place: Option<usize>, from: DateTime<Utc>, entry: usize, entries: &[Entry]) {
        let Some(place) = place.filter(|place| self.segments.get(*place).is_some_and(|old| old.from == from)) else {
            return;
        };
        let old = self.segments.remove(place);
        let goes_on = |segment: &&mut Segment| {
            segment.object == old.object && segment.entries.iter().all(|entry| old.entries.contains(entry))
        };
        match self.segments.get_mut(place + 1).filter(goes_on) {
            // What goes on later was not wrong: all that was said of it supports that now.
            Some(segment) => segment.entries = old.entries,
            None => {
                let at = entries.get(entry).map_or(from, |entry| entry.recorded_at);
                self.replaced.push((old, at));
            }
        }
    }

    fn end(&mut self, end: End, entry: usize, entries: &[Entry]) {
        let is_meant = |segment: &Segment| end.object.is_none_or(|object| object == segment.object);
        let begun = self.segments.partition_point(|segment| segment.from < end.at);
        let open = |place: usize| self.to(place).is_none_or(|to| end.at <= to);
        // Of a value that was named the last time it held is meant, whether or not something has ended it before.
        let meant =
            |place: &usize| self.segments.get(*place).is_some_and(is_meant) && (end.object.is_some() || open(*place));
        if let Some(place) = (0..begun).rev().find(meant) {
            let is_news = end.at_is_said || open(place);
            if let Some(segment) = self.segments.get_mut(place) {
                segment.end = Some(end.at).filter(|_| is_news).or(segment.end);
                segment.entries.push(entry);
            }
            return;
        }
        // Nobody said since when it held: then what said so was late, and it held until `at`.
        let late = (begun..self.segments.len())
            .filter(|_| end.late)
            .find(|place| self.segments.get(*place).is_some_and(|segment| is_meant(segment) && !segment.from_is_said));
        let late = late.map(|place| self.segments.remove(place));
        let Some(object) = end.object.or(late.as_ref().map(|segment| segment.object)) else { return };
        let from = before(end.at);
        self.hold(Span { object, from, from_is_said: false, until: Some(end.at), is_over: false }, entry, entries);
        if let (Some(late), Some(place)) = (late, self.at(from))
            && let Some(segment) = self.segments.get_mut(place)
        {
            segment.entries.splice(0..0, late.entries);
        }
    }
}
