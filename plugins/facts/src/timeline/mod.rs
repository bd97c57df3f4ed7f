//! What was said of one subject and predicate becomes facts: what held, from when until when, and since when we know.
//!
//! Claims are folded in the order in which they were said; no claim is ever changed. Whoever folds only what was known at
//! some moment sees what was believed then, whatever was said later: so history cannot be rewritten, and a claim that is
//! forgotten, or comes back, changes what it supports and nothing else.
//!
//! - A new value of a single-valued predicate closes the one before it at its own start, whichever was told first. Of a
//!   predicate with many values each has a line of its own (`line.rs`).
//! - The same value again is more evidence; an earlier start that was said moves the fact's start.
//! - What is taken back is folded as if it had never been said: what it had closed is open again.
//! - "No, Bremen" takes back what was last said, and puts the new value in its place; "no, in May" moves the start.

mod line;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use self::line::{Line, Segment};

/// Since when something holds of which it is only known until when: the day before it ended.
const KNOWN_BEFORE_THE_END: TimeDelta = TimeDelta::days(1);

/// So many ends that name no value are heeded of a predicate with many values, those said last: each of them supports what it
/// ends, which is every value, and thousands of them would take gigabytes.
const MOST_ABOUT_ALL: usize = 100;

/// One claim about the subject and predicate, as the fold needs it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    /// Names the claim to the caller.
    pub(crate) claim: u32,
    /// The turn it was said in, as a number: what is said in one breath does not correct itself.
    pub(crate) turn: u32,
    pub(crate) what: What,
    pub(crate) said_at: DateTime<Utc>,
    pub(crate) recorded_at: DateTime<Utc>,
    /// Since when it is no longer said, of a line of a file.
    pub(crate) withdrawn_at: Option<DateTime<Utc>>,
}

/// What a claim says. Values are numbers that the caller gives: the same value, the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Holds { object: u32, from: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>, corrects: bool },
    Ends { object: Option<u32>, at: Option<DateTime<Utc>> },
    NeverHeld { object: Option<u32>, from: Option<DateTime<Utc>> },
}

impl What {
    fn ends_whatever_holds(self) -> bool {
        matches!(self, Self::Ends { object: None, .. })
    }
}

/// What held of the subject.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) object: u32,
    pub(crate) from: DateTime<Utc>,
    pub(crate) from_is_said: bool,
    pub(crate) to: Option<DateTime<Utc>>,
    pub(crate) recorded_at: DateTime<Utc>,
    pub(crate) retracted_at: Option<DateTime<Utc>>,
    /// The claims that support it, as they are named, in the order in which they were said; never empty.
    pub(crate) claims: Vec<u32>,
}

/// The facts that `told` comes to, by start: what holds or held, and what was taken back. `told` stands in the order in
/// which it was said. Of a `single` predicate no two facts hold at a time, unless they were taken back. No two facts have
/// the same value and start: one that holds stands for those that were taken back.
pub(crate) fn fold(told: &[Told], single: bool) -> Vec<Held> {
    let mut folding =
        Folding { told, single, entries: Vec::new(), lines: BTreeMap::new(), gone: Vec::new(), withdrawn: Vec::new() };
    let is_about_all = |told: &Told| !single && told.withdrawn_at.is_none() && told.what.ends_whatever_holds();
    let mut unheeded = told.iter().filter(|told| is_about_all(told)).count().saturating_sub(MOST_ABOUT_ALL);
    for (place, told) in told.iter().enumerate() {
        if unheeded > 0 && is_about_all(told) {
            unheeded -= 1;
        } else {
            folding.take(place);
        }
    }
    folding.facts()
}

/// A claim on its way into the lines.
#[derive(Debug)]
struct Entry {
    /// Places among what was told: its own, and before it those that it speaks for, having corrected their date.
    told: Vec<usize>,
    turn: u32,
    kind: Kind,
    said_at: DateTime<Utc>,
    recorded_at: DateTime<Utc>,
    /// Whether nobody has taken it back.
    alive: bool,
}

impl Entry {
    /// Whether it is about one value, and has nothing to say when that is taken back.
    fn names_its_object(&self) -> bool {
        !matches!(self.kind, Kind::End(End { object: None, .. }))
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Hold(Span),
    End(End),
}

/// That something holds no longer.
#[derive(Debug, Clone, Copy)]
struct End {
    /// `None` for whatever holds.
    object: Option<u32>,
    at: DateTime<Utc>,
    at_is_said: bool,
    /// Whether it means what was only heard of after `at`, when nothing else holds.
    late: bool,
}

/// A value, and when it is said to hold.
#[derive(Debug, Clone, Copy)]
struct Span {
    object: u32,
    from: DateTime<Utc>,
    from_is_said: bool,
    until: Option<DateTime<Utc>>,
    /// Nobody said when it began, only that it is over.
    is_over: bool,
}

impl Span {
    /// What a claim says to hold when; `None` when it ends before it begins.
    fn of(
        object: u32,
        from: Option<DateTime<Utc>>,
        until: Option<DateTime<Utc>>,
        said_at: DateTime<Utc>,
    ) -> Option<Self> {
        let is_over = from.is_none() && until.is_some_and(|until| until <= said_at);
        let start = match (from, until) {
            (Some(from), _) => from,
            (None, Some(until)) if is_over => before(until),
            (None, _) => said_at,
        };
        let span = Self { object, from: start, from_is_said: from.is_some(), until, is_over };
        until.is_none_or(|until| start < until).then_some(span)
    }
}

/// A moment at which held what ended at `end`.
fn before(end: DateTime<Utc>) -> DateTime<Utc> {
    end.checked_sub_signed(KNOWN_BEFORE_THE_END).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// A fact that was taken back.
#[derive(Debug)]
struct Gone {
    span: Span,
    /// Places among what was told.
    told: Vec<usize>,
    at: DateTime<Utc>,
}

struct Folding<'a> {
    told: &'a [Told],
    single: bool,
    /// In the order in which they were said.
    entries: Vec<Entry>,
    /// By value; of a single-valued predicate there is one.
    lines: BTreeMap<u32, Line>,
    gone: Vec<Gone>,
    withdrawn: Vec<Gone>,
}

impl Folding<'_> {
    fn take(&mut self, place: usize) {
        let Some(told) = self.told.get(place) else { return };
        match (told.what, told.withdrawn_at) {
            (What::Holds { object, from, until, .. }, Some(at)) => {
                let span = Span::of(object, from, until, told.said_at);
                self.withdrawn.extend(span.map(|span| Gone { span, told: vec![place], at }));
            }
            (What::Ends { .. } | What::NeverHeld { .. }, Some(_)) => {}
            (What::Holds { object, from, until, corrects }, None) => {
                let Some(mut span) = Span::of(object, from, until, told.said_at) else { return };
                let mut places = Vec::new();
                if corrects && let Some(mistaken) = self.mistaken(told.turn) {
                    self.correct(mistaken, told, &mut span, &mut places);
                }
                places.push(place);
                let entry = self.enter(told, places, Kind::Hold(span));
                self.apply(self.line_of(object), entry);
            }
            (What::Ends { object, at }, None) => {
                let late = object.is_some() || self.single;
                let end = End { object, at: at.unwrap_or(told.said_at), at_is_said: at.is_some(), late };
                let entry = self.enter(told, vec![place], Kind::End(end));
                self.lines_of(object).into_iter().for_each(|line| self.apply(line, entry));
            }
            (What::NeverHeld { object, from }, None) => {
                for line in self.lines_of(object) {
                    self.take_back(line, told.recorded_at, |segment, to| {
                        object.is_none_or(|object| object == segment.object)
                            && from.is_none_or(|from| segment.from <= from && to.is_none_or(|to| from < to))
                    });
                }
            }
        }
    }

    fn line_of(&self, object: u32) -> u32 {
        if self.single { 0 } else { object }
    }

    /// The line of a value, or all.
    fn lines_of(&self, object: Option<u32>) -> Vec<u32> {
        object.map_or_else(|| self.lines.keys().copied().collect(), |object| vec![self.line_of(object)])
    }

    fn enter(&mut self, told: &Told, places: Vec<usize>, kind: Kind) -> usize {
        let (turn, said_at, recorded_at) = (told.turn, told.said_at, told.recorded_at);
        self.entries.push(Entry { told: places, turn, kind, said_at, recorded_at, alive: true });
        self.entries.len() - 1
    }

    fn apply(&mut self, line: u32, entry: usize) {
        let line = self.lines.entry(line).or_default();
        line.add(entry, &self.entries);
    }

    /// What a correction said in `turn` is about: of the last turn before it that said something, what it said last and
    /// nobody has taken back.
    fn mistaken(&self, turn: u32) -> Option<usize> {
        let holds = |entry: &Entry| matches!(entry.kind, Kind::Hold(_));
        // Also when all of it was taken back: a second correction in one breath is about the same turn.
        let about = self.entries.iter().rev().find(|entry| entry.turn != turn && holds(entry))?.turn;
        self.entries.iter().rposition(|entry| entry.turn == about && entry.alive && holds(entry))
    }

    /// Takes back the fact that `mistaken` was said of, and lets `span` have its times where none were said; or, when only
    /// the times are others, lets the correction speak for what supported it, whose places are added to `places`.
    fn correct(&mut self, mistaken: usize, told: &Told, span: &mut Span, places: &mut Vec<usize>) {
        let What::Holds { from, until, .. } = told.what else { return };
        let Some(Entry { kind: Kind::Hold(Span { object, .. }), .. }) = self.entries.get(mistaken) else { return };
        let key = self.line_of(*object);
        let Some(line) = self.lines.get_mut(&key) else { return };
        let Some(old) = line.segment_of(mistaken).cloned() else { return };
        let same = old.object == span.object;
        if same && from.is_none() && until.is_none() {
            return;
        }
        if same {
            for entry in old.entries {
                if let Some(entry) = self.entries.get_mut(entry) {
                    entry.alive = !entry.names_its_object();
                    places.extend_from_slice(&entry.told);
                }
            }
            line.build(&self.entries);
        } else {
            self.take_back(key, told.recorded_at, |segment, _| segment.from == old.from);
        }
        if from.is_none() && until.is_none_or(|until| old.from < until) {
            (span.from, span.from_is_said, span.is_over) = (old.from, old.from_is_said, false);
        }
        if until.is_none() {
            span.until = old.end.filter(|end| span.from < *end);
        }
    }

    /// Folds a line anew without the facts that were `wrong`, given each with its end, and without what supported them.
    fn take_back(&mut self, key: u32, at: DateTime<Utc>, wrong: impl Fn(&Segment, Option<DateTime<Utc>>) -> bool) {
        let Some(line) = self.lines.get_mut(&key) else { return };
        let mut any = false;
        for (segment, to) in line.held() {
            if wrong(segment, to) {
                any = true;
                for entry in &segment.entries {
                    if let Some(entry) = self.entries.get_mut(*entry) {
                        entry.alive = !entry.names_its_object();
                    }
                }
            }
        }
        if !any {
            return;
        }
        for (segment, _) in line.held() {
            let alive =
                |entry: &usize| self.entries.get(*entry).is_some_and(|entry| entry.alive && entry.names_its_object());
            if !segment.entries.iter().any(alive) {
                self.gone.push(Gone { span: segment.span(), told: places(&segment.entries, &self.entries), at });
            }
        }
        line.build(&self.entries);
    }

    fn facts(self) -> Vec<Held> {
        let places = |segment: &Segment| places(&segment.entries, &self.entries);
        let mut facts: BTreeMap<(DateTime<Utc>, u32), Draft> = BTreeMap::new();
        for (segment, to) in self.lines.values().flat_map(Line::held) {
            let draft = Draft { span: segment.span(), to, told: places(segment), retracted_at: None };
            facts.insert((segment.from, segment.object), draft);
        }
        let replaced = self.lines.values().flat_map(|line| &line.replaced);
        let replaced = replaced.map(|(old, at)| Gone { span: old.span(), told: places(old), at: *at });
        let withdrawn = self.withdrawn.into_iter().filter(|gone| {
            let key = if self.single { 0 } else { gone.span.object };
            !self.lines.get(&key).is_some_and(|line| line.holds(gone.span.object, gone.span.from))
        });
        for Gone { span, told, at } in replaced.chain(self.gone).chain(withdrawn) {
            let draft = Draft { span, to: span.until, told, retracted_at: Some(at) };
            facts.entry((span.from, span.object)).and_modify(|known| known.join(&draft)).or_insert(draft);
        }
        facts.into_values().filter_map(|draft| draft.held(self.told)).collect()
    }
}

/// A fact whose claims are still places among what was told.
struct Draft {
    span: Span,
    to: Option<DateTime<Utc>>,
    told: Vec<usize>,
    retracted_at: Option<DateTime<Utc>>,
}

impl Draft {
    /// The same value from the same start was taken back more than once; or holds, and then that is all there is to say.
    fn join(&mut self, other: &Draft) {
        if self.retracted_at.is_some() {
            self.told.extend_from_slice(&other.told);
            self.told.sort_unstable();
            self.told.dedup();
            self.retracted_at = self.retracted_at.max(other.retracted_at);
        }
    }

    fn held(self, told: &[Told]) -> Option<Held> {
        let told = || self.told.iter().filter_map(|place| told.get(*place));
        let recorded_at = told().map(|told| told.recorded_at).min()?;
        Some(Held {
            object: self.span.object,
            from: self.span.from,
            from_is_said: self.span.from_is_said,
            to: self.to,
            recorded_at,
            // What was told before the retraction may have been written down after it.
            retracted_at: self.retracted_at.map(|at| at.max(recorded_at)),
            claims: told().map(|told| told.claim).collect(),
        })
    }
}

/// The places of the claims of some entries, in the order in which they were said, each once.
fn places(some: &[usize], entries: &[Entry]) -> Vec<usize> {
    let mut places: Vec<usize> =
        some.iter().filter_map(|entry| entries.get(*entry)).flat_map(|entry| entry.told.iter().copied()).collect();
    places.sort_unstable();
    places.dedup();
    places
}
