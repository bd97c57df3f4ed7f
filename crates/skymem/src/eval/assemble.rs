//! What both ways of writing a script have in common: which keys there are, what they may be, and what they make.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::Value;
use skymem_core::files::FileName;
use skymem_core::{Role, SessionId};

use super::filler;
use super::script::{Act, Fault, Note, Question, Said, Script, Step, Target, Wanted};
use crate::import::moment;

/// The script that was written as `head` and `steps`, each with its line; `stem` names it when it does not itself.
///
/// # Errors
///
/// In words, with the line and the key.
pub(crate) fn assemble(head: Head, steps: Vec<(usize, Written)>, stem: &str) -> Result<Script, Fault> {
    let name = head.name.unwrap_or_else(|| stem.to_owned());
    if name.trim().is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        return Err(Fault::at(1, "name: is a line of 1 to 100 characters"));
    }
    let now = match head.begins {
        Some(begins) => absolute(&begins).map_err(|reason| Fault::at(1, format!("begins: {reason}")))?,
        None => first_monday(),
    };
    let mut scene =
        Scene { now, session: None, user: ME.into(), users: BTreeSet::new(), steps: Vec::new(), fillers: 0 };
    for (line, written) in steps {
        scene.play(line, written).map_err(|reason| Fault::at(line, reason))?;
    }
    let script = Script { name, about: head.about, file: String::new(), steps: scene.steps };
    match script.questions() {
        0 => Err(Fault::at(1, "it asks nothing: a script has at least one question")),
        1..=MOST_QUESTIONS => Ok(script),
        many => Err(Fault::at(1, format!("it asks {many} questions, more than {MOST_QUESTIONS}"))),
    }
}

/// What stands at the beginning of a script.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "`name`, `about` and `begins`")]
pub(crate) struct Head {
    /// What the script is called.
    pub(crate) name: Option<String>,
    /// What it is for, for the reader.
    pub(crate) about: Option<String>,
    /// When its first turn is said.
    pub(crate) begins: Option<String>,
}

/// A step as it was written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a step: an object with keys like `user`, `assistant`, `ask`")]
pub(crate) struct Written {
    /// The session, from here on; `none` asks outside of any.
    pub(crate) session: Option<String>,
    /// When, from here on: a moment, or a span like `+3 days` after what was before.
    pub(crate) at: Option<String>,
    /// Whose memory, from here on.
    #[serde(rename = "as")]
    pub(crate) who: Option<String>,

    /// What the user says ...
    pub(crate) user: Option<String>,
    /// ... and is answered.
    pub(crate) assistant: Option<String>,
    /// What a system turn says.
    pub(crate) system: Option<String>,
    /// What a tool says.
    pub(crate) tool: Option<String>,
    /// Who speaks, in a conversation of several.
    pub(crate) speaker: Option<String>,
    /// So many exchanges about other things.
    pub(crate) filler: Option<u32>,

    /// A note to memory.
    pub(crate) remember: Option<String>,
    /// Waits until all is learned.
    pub(crate) learn: Option<bool>,
    /// Restarts the server.
    pub(crate) restart: Option<bool>,
    /// Forgets the exchanges in which this is said.
    pub(crate) forget: Option<String>,
    /// Forgets a session.
    pub(crate) forget_session: Option<String>,
    /// A memory file ...
    pub(crate) file: Option<String>,
    /// ... and its text.
    pub(crate) text: Option<String>,

    /// The question.
    pub(crate) ask: Option<String>,
    /// What must be recalled.
    #[serde(default)]
    pub(crate) recalls: Vec<String>,
    /// What must not.
    #[serde(default)]
    pub(crate) not: Vec<String>,
    /// Among the first so many.
    pub(crate) rank: Option<u32>,
    /// Nothing is recalled.
    pub(crate) nothing: Option<bool>,
    /// Exchanges that stand word for word.
    pub(crate) window: Option<u32>,
    /// What the answer of a model must say.
    #[serde(default)]
    pub(crate) answer: Vec<String>,
    /// What it must not.
    #[serde(default)]
    pub(crate) answer_not: Vec<String>,
    /// What must be true of it.
    pub(crate) judge: Option<String>,
}

/// Whose memory it is when the script does not say.
const ME: &str = "me";
/// The session that is none.
const NONE: &str = "none";
const MOST_QUESTIONS: usize = 500;
const MOST_STEPS: usize = 5_000;
const MOST_USERS: usize = 10;
const MOST_FILLERS: u32 = 500;
const LONGEST_TEXT: usize = 100_000;
const MOST_WANTED: usize = 50;

/// When scripts begin that do not say: a Monday.
fn first_monday() -> DateTime<Utc> {
    DateTime::from_timestamp(1_770_022_800, 0).unwrap_or_default()
}

/// What holds from step to step.
struct Scene {
    now: DateTime<Utc>,
    session: Option<String>,
    user: String,
    users: BTreeSet<String>,
    steps: Vec<Step>,
    fillers: usize,
}

impl Scene {
    fn play(&mut self, line: usize, written: Written) -> Result<(), String> {
        self.set(&written)?;
        let acts = self.acts(written)?;
        self.steps.extend(acts.into_iter().map(|act| Step { line, act }));
        if self.steps.len() > MOST_STEPS {
            return Err(format!("from here on it has more than {MOST_STEPS} steps, filler included"));
        }
        Ok(())
    }

    /// Takes over what holds from here on.
    fn set(&mut self, written: &Written) -> Result<(), String> {
        if let Some(at) = &written.at {
            self.now = when(at, self.now).map_err(|reason| format!("at: {reason}"))?;
        }
        if let Some(session) = &written.session {
            self.session = match session.trim() {
                NONE => None,
                name => {
                    name.parse::<SessionId>().map_err(|bad| format!("session: {bad}"))?;
                    Some(name.to_owned())
                }
            };
        }
        if let Some(who) = &written.who {
            let who = who.trim();
            if who.is_empty() || who.chars().count() > 64 {
                return Err("as: is a name of 1 to 64 characters".into());
            }
            self.user = who.to_owned();
        }
        self.users.insert(self.user.clone());
        if self.users.len() > MOST_USERS {
            return Err(format!("as: a script has at most {MOST_USERS} users"));
        }
        Ok(())
    }

    fn acts(&mut self, mut written: Written) -> Result<Vec<Act>, String> {
        let said = [
            (Role::System, written.system.take()),
            (Role::User, written.user.take()),
            (Role::Tool, written.tool.take()),
            (Role::Assistant, written.assistant.take()),
        ];
        let said: Vec<(Role, String)> = said.into_iter().filter_map(|(role, text)| Some((role, text?))).collect();
        only_one(&written, !said.is_empty())?;
        belongs(&written, !said.is_empty())?;
        let user = self.user.clone();
        let Written { speaker, filler, remember, learn, restart, forget, forget_session, file, text, .. } = &written;
        if !said.is_empty() {
            return self.say(said, speaker.as_deref());
        }
        if let Some(count) = filler {
            return self.fill(*count);
        }
        if let Some(note) = remember {
            let note = Note { user, text: fine("remember", note)?, at: self.now };
            self.time_passes();
            return Ok(vec![Act::Note(note)]);
        }
        if flag("learn", *learn)? {
            return Ok(vec![Act::Learn]);
        }
        if flag("restart", *restart)? {
            return Ok(vec![Act::Restart]);
        }
        if let Some(saying) = forget {
            return Ok(vec![Act::Forget { user, what: Target::Saying(fine("forget", saying)?) }]);
        }
        if let Some(session) = forget_session {
            let session = session.trim();
            session.parse::<SessionId>().map_err(|bad| format!("forget_session: {bad}"))?;
            return Ok(vec![Act::Forget { user, what: Target::Session(session.to_owned()) }]);
        }
        if let Some(name) = file {
            let name: FileName = name.trim().parse().map_err(|bad| format!("file: {bad}"))?;
            let text = text.as_deref().ok_or("file: `text` is missing: what shall stand in it?")?;
            return Ok(vec![Act::File { user, name: name.as_str().to_owned(), text: fine("text", text)? }]);
        }
        match written.ask.is_some() {
            true => Ok(vec![Act::Ask(Box::new(self.question(written)?))]),
            false => Ok(Vec::new()),
        }
    }

    fn say(&mut self, said: Vec<(Role, String)>, speaker: Option<&str>) -> Result<Vec<Act>, String> {
        if speaker.is_some() && said.len() > 1 {
            return Err("speaker: stands with one turn, not with several".into());
        }
        let speaker = speaker.map(|speaker| fine("speaker", speaker)).transpose()?;
        let mut acts = Vec::new();
        for (role, text) in said {
            acts.push(self.turn(role, speaker.clone(), fine(role.as_str(), &text)?)?);
        }
        Ok(acts)
    }

    fn fill(&mut self, count: u32) -> Result<Vec<Act>, String> {
        if !(1..=MOST_FILLERS).contains(&count) {
            return Err(format!("filler: is a number of exchanges from 1 to {MOST_FILLERS}"));
        }
        let mut acts = Vec::new();
        for _ in 0..count {
            let (question, answer) = filler::exchange(self.fillers);
            self.fillers += 1;
            acts.push(self.turn(Role::User, None, question)?);
            acts.push(self.turn(Role::Assistant, None, answer)?);
        }
        Ok(acts)
    }

    fn turn(&mut self, role: Role, speaker: Option<String>, text: String) -> Result<Act, String> {
        let session = self.session.clone().ok_or("a turn is said in a session: name one with `session` before it")?;
        let said = Said { user: self.user.clone(), session, role, speaker, text, at: self.now };
        self.time_passes();
        Ok(Act::Say(said))
    }

    fn time_passes(&mut self) {
        self.now += TimeDelta::seconds(30);
    }

    fn question(&self, written: Written) -> Result<Question, String> {
        let question = Question {
            user: self.user.clone(),
            session: self.session.clone(),
            at: self.now,
            text: fine("ask", written.ask.as_deref().unwrap_or_default())?,
            window: written.window.map(|window| u8::try_from(window).unwrap_or(u8::MAX)),
            recalls: wanted("recalls", &written.recalls)?,
            lacks: wanted("not", &written.not)?,
            rank: written.rank.and_then(|rank| usize::try_from(rank).ok()),
            nothing: flag("nothing", written.nothing)?,
            answer: wanted("answer", &written.answer)?,
            answer_lacks: wanted("answer_not", &written.answer_not)?,
            judge: written.judge.as_deref().map(|judge| fine("judge", judge)).transpose()?,
        };
        if question.rank.is_some_and(|rank| !(1..=20).contains(&rank)) {
            return Err("rank: is a place from 1 to 20".into());
        }
        if question.window.is_some_and(|window| window > 8) {
            return Err("window: is a number of exchanges from 0 to 8".into());
        }
        if question.rank.is_some() && question.recalls.is_empty() {
            return Err("rank: says how early `recalls` comes: without it there is nothing to rank".into());
        }
        if question.nothing && !question.recalls.is_empty() {
            return Err("nothing: contradicts `recalls`".into());
        }
        let expects = [&question.recalls, &question.lacks, &question.answer, &question.answer_lacks];
        if expects.iter().all(|texts| texts.is_empty()) && !question.nothing && question.judge.is_none() {
            return Err(
                "ask: nothing is expected: give `recalls`, `not`, `nothing`, `answer`, `answer_not` or `judge`".into(),
            );
        }
        Ok(question)
    }
}

/// A step does one thing.
fn only_one(written: &Written, says: bool) -> Result<(), String> {
    let does = [
        ("a turn", says),
        ("`filler`", written.filler.is_some()),
        ("`remember`", written.remember.is_some()),
        ("`learn`", written.learn.is_some()),
        ("`restart`", written.restart.is_some()),
        ("`forget`", written.forget.is_some()),
        ("`forget_session`", written.forget_session.is_some()),
        ("`file`", written.file.is_some()),
        ("`ask`", written.ask.is_some()),
    ];
    let does: Vec<&str> = does.into_iter().filter(|(_, does)| *does).map(|(name, _)| name).collect();
    let sets = written.session.is_some() || written.at.is_some() || written.who.is_some();
    match does.len() {
        0 if sets => Ok(()),
        0 => Err(
            "it does nothing: give `user`, `assistant`, `system`, `tool`, `filler`, `remember`, `learn`, `restart`, \
                  `forget`, `forget_session`, `file` or `ask`"
                .into(),
        ),
        1 => Ok(()),
        _ => Err(format!("a step does one thing, not {}", does.join(" and "))),
    }
}

/// Keys that only say more about another one do not stand alone.
fn belongs(written: &Written, says: bool) -> Result<(), String> {
    let asks = [
        ("recalls", !written.recalls.is_empty()),
        ("not", !written.not.is_empty()),
        ("rank", written.rank.is_some()),
        ("nothing", written.nothing.is_some()),
        ("window", written.window.is_some()),
        ("answer", !written.answer.is_empty()),
        ("answer_not", !written.answer_not.is_empty()),
        ("judge", written.judge.is_some()),
    ];
    if let Some((key, _)) = asks.into_iter().find(|(_, given)| *given && written.ask.is_none()) {
        return Err(format!("{key}: belongs to `ask`, which is missing here"));
    }
    if written.speaker.is_some() && !says {
        return Err("speaker: belongs to `user`, `assistant`, `system` or `tool`".into());
    }
    if written.text.is_some() && written.file.is_none() {
        return Err("text: belongs to `file`, which is missing here".into());
    }
    Ok(())
}

fn fine(key: &str, text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err(format!("{key}: must not be blank"));
    }
    if text.contains('\0') || text.chars().count() > LONGEST_TEXT {
        return Err(format!("{key}: has at most {LONGEST_TEXT} characters, none of them NUL"));
    }
    Ok(text.trim().to_owned())
}

fn flag(key: &str, given: Option<bool>) -> Result<bool, String> {
    match given {
        Some(false) => Err(format!("{key}: is `true`, or is not there")),
        given => Ok(given.is_some()),
    }
}

fn wanted(key: &str, texts: &[String]) -> Result<Vec<Wanted>, String> {
    if texts.len() > MOST_WANTED {
        return Err(format!("{key}: names at most {MOST_WANTED} texts"));
    }
    let one = |text: &String| Wanted::parse(text).ok_or_else(|| format!("{key}: a text must not be blank"));
    texts.iter().map(one).collect()
}

/// The moment that `text` names, as seen from `now`.
pub(crate) fn when(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    let text = text.trim();
    let Some(span) = text.strip_prefix('+') else { return absolute(text) };
    let bad = || format!("{text:?} is no span: write +20 minutes, +3 hours, +1 day or +2 weeks");
    let (number, unit) = span.trim().split_once(' ').ok_or_else(bad)?;
    let number = number.parse::<i64>().ok().filter(|number| (0..=100_000).contains(number)).ok_or_else(bad)?;
    let span = match unit.trim().trim_end_matches('s') {
        "minute" => TimeDelta::minutes(number),
        "hour" => TimeDelta::hours(number),
        "day" => TimeDelta::days(number),
        "week" => TimeDelta::weeks(number),
        _ => return Err(bad()),
    };
    let then = now + span;
    absolute(&then.to_rfc3339()).map_err(|_| format!("{text:?} leads out of the years 1900 to 2200"))
}

fn absolute(text: &str) -> Result<DateTime<Utc>, String> {
    moment(&Value::from(text.trim()))
        .map_err(|_| format!("{text:?} is no time: write 2026-02-06T18:30:00Z, 2026-02-06, or a span like +3 days"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> Written {
        Written { ask: Some("x".into()), recalls: vec!["y".into()], ..Written::default() }
    }

    fn said() -> Written {
        Written { session: Some("a".into()), user: Some("x".into()), ..Written::default() }
    }

    #[track_caller]
    fn refused(steps: Vec<Written>, part: &str) {
        let steps = steps.into_iter().enumerate().map(|(index, step)| (index + 1, step)).collect();
        let fault = assemble(Head::default(), steps, "x").unwrap_err();
        assert!(fault.reason.contains(part), "{fault:?} where {part:?} was expected");
    }

    #[test]
    fn what_may_not_be_is_told_with_its_key() {
        let check = |change: fn(&mut Written), part: &str| {
            let mut written = ask();
            change(&mut written);
            refused(vec![written], part);
        };
        check(|ask| ask.rank = Some(0), "rank: is a place");
        check(|ask| ask.window = Some(9), "window: is a number");
        check(|ask| ask.nothing = Some(true), "nothing: contradicts");
        check(|ask| ask.nothing = Some(false), "nothing: is `true`");
        check(|ask| ask.recalls.clear(), "nothing is expected");
        check(|ask| ask.recalls = vec![" ".into()], "recalls: a text must not be blank");
        check(|ask| ask.recalls = vec!["x".into(); 51], "at most 50");
        check(|ask| ask.ask = Some(" ".into()), "ask: must not be blank");
        check(|ask| ask.ask = Some("x\0".into()), "NUL");
        check(|ask| ask.ask = Some("x".repeat(100_001)), "100000 characters");
        check(|ask| ask.restart = Some(true), "one thing, not `restart` and `ask`");
        check(|ask| ask.speaker = Some("Anna".into()), "speaker: belongs to");
        check(|ask| ask.text = Some("x".into()), "text: belongs to `file`");
        check(|ask| ask.at = Some("soon".into()), "at: \"soon\" is no time");
        check(|ask| ask.at = Some("+3 moons".into()), "no span");
        check(|ask| ask.at = Some("+99999 weeks".into()), "out of the years");
        check(|ask| ask.who = Some(String::new()), "as: is a name");
        check(|ask| ask.session = Some("x".repeat(300)), "session:");
        check(|ask| ask.ask = None, "it does nothing");
        check(|ask| (ask.ask, ask.session) = (None, Some("a".into())), "recalls: belongs to `ask`");
    }

    #[test]
    fn steps_that_are_no_questions_are_looked_at_too() {
        refused(vec![Written { user: Some("x".into()), ..Written::default() }], "name one with `session`");
        refused(vec![Written { filler: Some(0), session: Some("a".into()), ..Written::default() }], "from 1 to 500");
        refused(vec![Written { file: Some("NOW.md".into()), ..Written::default() }], "`text` is missing");
        let up = Written { file: Some("../x.md".into()), text: Some("x".into()), ..Written::default() };
        refused(vec![up], "file: ");
        refused(vec![Written { restart: Some(false), ..Written::default() }], "restart: is `true`");
        refused(vec![Written { assistant: Some("x".into()), speaker: Some("A".into()), ..said() }], "with one turn");
        refused(vec![said()], "asks nothing");
        let filler = || Written { filler: Some(500), session: Some("a".into()), ..Written::default() };
        refused((0..6).map(|_| filler()).collect(), "more than 5000 steps");
        let someone = |number: usize| Written { who: Some(format!("user {number}")), ..said() };
        refused((0..11).map(someone).collect(), "at most 10 users");
    }

    #[test]
    fn session_user_and_time_hold_until_they_change() {
        let first = Written { who: Some("anna".into()), at: Some("2026-02-03".into()), ..said() };
        let then = Written { assistant: Some("y".into()), ..Written::default() };
        let later = Written { at: Some("+2 hours".into()), session: Some("none".into()), ..ask() };

        let script = assemble(Head::default(), vec![(1, first), (2, then), (3, later)], "x").unwrap();

        let Act::Say(answer) = &script.steps[1].act else { panic!() };
        assert_eq!((answer.user.as_str(), answer.session.as_str()), ("anna", "a"));
        assert_eq!(answer.at.to_rfc3339(), "2026-02-03T00:00:30+00:00");
        let Act::Ask(question) = &script.steps[2].act else { panic!() };
        assert_eq!((question.user.as_str(), question.session.as_deref()), ("anna", None));
        assert_eq!(question.at.to_rfc3339(), "2026-02-03T02:01:00+00:00");
    }

    #[test]
    fn a_name_is_a_line() {
        for name in ["", " ", "a\nb", &"x".repeat(101)] {
            let head = Head { name: Some(name.into()), ..Head::default() };
            assert!(assemble(head, vec![(1, ask())], "x").is_err(), "{name:?}");
        }
        let head = Head { begins: Some("then".into()), ..Head::default() };
        assert!(assemble(head, vec![(1, ask())], "x").unwrap_err().reason.contains("begins: "));
    }
}
