//! Scripts written in Markdown, as people write a conversation down.

use super::assemble::{Written, assemble};
use super::script::{Fault, Script};
use super::yaml;

/// The script in `text`; `stem` names it when it does not name itself.
///
/// # Errors
///
/// In words, with the line.
pub(crate) fn parse(text: &str, stem: &str) -> Result<Script, Fault> {
    let lines: Vec<&str> = text.lines().collect();
    let (front, body) = front_matter(&lines)?;
    // The front matter begins in the second line.
    let head = yaml::head(&front).map_err(|fault| Fault { line: fault.line + 1, ..fault })?;
    let mut reader = Reader::default();
    for (index, line) in lines.iter().enumerate().skip(body) {
        reader.line(index + 1, line).map_err(|reason| Fault::at(index + 1, reason))?;
    }
    if let Some(fence) = reader.fence {
        return Err(Fault::at(fence, "this block of code has no end"));
    }
    reader.close();
    assemble(head, reader.steps, stem)
}

/// The front matter, and the index of the first line after it.
fn front_matter(lines: &[&str]) -> Result<(String, usize), Fault> {
    if lines.first().map(|line| line.trim_end()) != Some("---") {
        return Ok((String::new(), 0));
    }
    let end = lines.iter().skip(1).position(|line| line.trim_end() == "---");
    let end = end.ok_or_else(|| Fault::at(1, "the front matter has no end: a line `---` is missing"))?;
    Ok((lines.get(1..=end).unwrap_or_default().join("\n"), end + 2))
}

/// What has been read, and what the next line may go on with.
#[derive(Default)]
struct Reader {
    steps: Vec<(usize, Written)>,
    open: Open,
    /// Whether a heading came; what stands before the first is for the reader.
    begun: bool,
    /// The line in which a block of code began, while it lasts.
    fence: Option<usize>,
}

/// What the next line may go on with.
#[derive(Default)]
enum Open {
    /// Nothing: a line begins something.
    #[default]
    Nothing,
    /// A text of the last step: lines are added.
    Text(Part, Vec<String>),
    /// The question of the last step: lines say what is expected.
    Question,
}

/// Whose text it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    System,
    User,
    Tool,
    Assistant,
    File,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let line = line.trim_end();
        if let Open::Text(_, text) = &mut self.open {
            let is_fence = ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence));
            if is_fence {
                self.fence = if self.fence.is_some() { None } else { Some(number) };
            }
            if is_fence || self.fence.is_some() {
                text.push(line.to_owned());
                return Ok(());
            }
        }
        if let Some(heading) = line.strip_prefix("##").filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            self.begun = true;
            self.begin(number, heading_of(heading)?, Open::Nothing);
            return Ok(());
        }
        if let Some(begins) = begins(line) {
            if !self.begun {
                return Err("a heading is missing before this: `## session`".into());
            }
            return self.act(number, begins);
        }
        match &mut self.open {
            Open::Text(_, text) => text.push(line.strip_prefix('\\').unwrap_or(line).to_owned()),
            Open::Question if !is_remark(line) => self.expect(line)?,
            Open::Nothing if self.begun && !is_remark(line) => {
                return Err(format!("{line:?} begins nothing: {BEGINS}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn act(&mut self, number: usize, begins: Begins<'_>) -> Result<(), String> {
        match begins {
            Begins::Turn(part, speaker, text) => {
                let speaker = speaker.map(str::to_owned);
                let text = Open::Text(part, vec![text.to_owned()]);
                self.begin(number, Written { speaker, ..Written::default() }, text);
            }
            Begins::Question(text) => {
                let ask = Some(text.to_owned());
                self.begin(number, Written { ask, ..Written::default() }, Open::Question);
            }
            Begins::Command(command) => {
                let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
                let rest = rest.trim();
                let (written, open) = commanded(word, rest)?;
                self.begin(number, written, open);
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: usize, written: Written, open: Open) {
        self.close();
        self.steps.push((number, written));
        self.open = open;
    }

    /// Gives the last step the text that was read for it.
    fn close(&mut self) {
        let Open::Text(part, lines) = std::mem::take(&mut self.open) else { return };
        let text = Some(lines.join("\n").trim().to_owned());
        let Some((_, step)) = self.steps.last_mut() else { return };
        match part {
            Part::System => step.system = text,
            Part::User => step.user = text,
            Part::Tool => step.tool = text,
            Part::Assistant => step.assistant = text,
            Part::File => step.text = text,
        }
    }

    /// What a line under a question expects of its answer.
    fn expect(&mut self, line: &str) -> Result<(), String> {
        let Some((_, step)) = self.steps.last_mut() else { return Ok(()) };
        if let Some(text) = line.strip_prefix("+ ") {
            step.recalls.push(text.to_owned());
            return Ok(());
        }
        if let Some(text) = line.strip_prefix("- ") {
            step.not.push(text.to_owned());
            return Ok(());
        }
        let (key, value) = line.split_once(':').map_or((line, ""), |(key, value)| (key.trim(), value.trim()));
        let number = || value.parse().map_err(|_| format!("{key}: {value:?} is no number"));
        match key {
            "nothing" if value.is_empty() => step.nothing = Some(true),
            "rank" => step.rank = Some(number()?),
            "window" => step.window = Some(number()?),
            "answer" => step.answer.push(value.to_owned()),
            "answer_not" => step.answer_not.push(value.to_owned()),
            "judge" => step.judge = Some(value.to_owned()),
            _ => {
                return Err(format!(
                    "{line:?} expects nothing of a question: write `+ recalled`, `- not recalled`, `nothing`, `rank: 1`, \
                     `window: 0`, `answer: text`, `answer_not: text` or `judge: what is true of the answer`"
                ));
            }
        }
        Ok(())
    }
}

const BEGINS: &str = "write `## session, +3 days, as anna`, `User: ...`, `Assistant: ...`, `System: ...`, `Tool: ...`, \
                      `? question` or `! command`";

/// What a line begins.
enum Begins<'a> {
    Turn(Part, Option<&'a str>, &'a str),
    Question(&'a str),
    Command(&'a str),
}

fn begins(line: &str) -> Option<Begins<'_>> {
    if let Some(question) = line.strip_prefix("? ") {
        return Some(Begins::Question(question.trim()));
    }
    if let Some(command) = line.strip_prefix("! ") {
        return Some(Begins::Command(command.trim()));
    }
    let roles = [("User", Part::User), ("Assistant", Part::Assistant), ("System", Part::System), ("Tool", Part::Tool)];
    let (rest, part) = roles.into_iter().find_map(|(word, part)| Some((line.strip_prefix(word)?, part)))?;
    if let Some(text) = rest.strip_prefix(':') {
        return Some(Begins::Turn(part, None, text.trim()));
    }
    let (speaker, text) = rest.strip_prefix(" (")?.split_once("):")?;
    Some(Begins::Turn(part, Some(speaker.trim()), text.trim()))
}

/// Blank lines, and remarks that fit on a line.
fn is_remark(line: &str) -> bool {
    line.is_empty() || (line.starts_with("<!--") && line.ends_with("-->"))
}

/// `session, +3 days, as anna`.
fn heading_of(heading: &str) -> Result<Written, String> {
    let mut parts = heading.split(',').map(str::trim);
    let session = parts.next().filter(|session| !session.is_empty());
    let session = session.ok_or("the heading names no session: write `## monday, +3 days`")?.to_owned();
    let mut written = Written { session: Some(session), ..Written::default() };
    for part in parts {
        match part.strip_prefix("as ") {
            Some(who) => written.who = Some(who.trim().to_owned()),
            None => written.at = Some(part.to_owned()),
        }
    }
    Ok(written)
}

fn commanded(word: &str, rest: &str) -> Result<(Written, Open), String> {
    let mut written = Written::default();
    let text = || Some(rest.to_owned());
    match (word, rest.strip_prefix("session ")) {
        ("restart", _) if rest.is_empty() => written.restart = Some(true),
        ("learn", _) if rest.is_empty() => written.learn = Some(true),
        ("filler", _) => {
            let number = rest.parse().map_err(|_| format!("filler: {rest:?} is no number of exchanges"))?;
            written.filler = Some(number);
        }
        ("remember", _) => written.remember = text(),
        ("forget", Some(session)) => written.forget_session = Some(session.to_owned()),
        ("forget", None) => written.forget = text(),
        ("file", _) => {
            written.file = text();
            return Ok((written, Open::Text(Part::File, Vec::new())));
        }
        _ => {
            return Err(format!(
                "`! {word} {rest}` is no command: there are `! restart`, `! learn`, `! filler 50`, `! remember text`, \
                 `! forget text`, `! forget session name` and `! file NOW.md` with its text below"
            ));
        }
    }
    Ok((written, Open::Nothing))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::script::{Act, Said, Target};
    use super::*;

    fn acts(text: &str) -> Vec<Act> {
        parse(text, "x").unwrap().steps.into_iter().map(|step| step.act).collect()
    }

    fn said(text: &str) -> Vec<Said> {
        let turn = |act| if let Act::Say(said) = act { Some(said) } else { None };
        acts(text).into_iter().filter_map(turn).collect()
    }

    #[track_caller]
    fn refused(text: &str, line: usize, part: &str) {
        let fault = parse(text, "x").unwrap_err();
        assert!(fault.line == line && fault.reason.contains(part), "{fault:?} where {line}: {part} was expected");
    }

    #[test]
    fn a_conversation_is_written_as_people_write_it_down() {
        let text = "---\nname: dog\nabout: names\n---\n# A title\nand prose for the reader.\n\n## one\n\nUser: My dog is Rex.\n\
                    Assistant: Nice.\nWhat breed?\n\n## two, +14 days, as anna\n<!-- a remark -->\n? What is my dog called?\n\
                    + Rex | rex\n- Bello\nrank: 2\nwindow: 0\nanswer: Rex\nanswer_not: Bello\njudge: it names the dog\n\n\
                    ? And now?\nnothing\n";

        let script = parse(text, "x").unwrap();

        assert_eq!((script.name.as_str(), script.turns(), script.questions()), ("dog", 2, 2));
        let Act::Say(answer) = &script.steps[1].act else { panic!() };
        assert_eq!(answer.text, "Nice.\nWhat breed?");
        let Act::Ask(question) = &script.steps[2].act else { panic!() };
        assert_eq!(
            (script.steps[2].line, question.session.as_deref(), question.user.as_str()),
            (16, Some("two"), "anna")
        );
        assert_eq!((question.rank, question.window, question.nothing), (Some(2), Some(0), false));
        assert_eq!((question.recalls.len(), question.lacks.len()), (1, 1));
        assert_eq!((question.answer.len(), question.answer_lacks.len()), (1, 1));
        assert!(question.judge.is_some());
    }

    #[test]
    fn a_text_may_hold_anything_when_it_is_code_or_escaped() {
        let text = "## a\nUser: look:\n```\n## not a heading\nUser: not a turn\n? not a question\n```\n\\? not one either\n\
                    - a list\n+ too\n### deeper\n? q\n+ a\n";

        let said = said(text);

        assert_eq!(said.len(), 1);
        for part in ["## not a heading", "User: not a turn", "\n? not one either", "- a list", "+ too", "### deeper"] {
            assert!(said[0].text.contains(part), "{part:?} is not in {:?}", said[0].text);
        }
    }

    #[test]
    fn commands_do_what_they_say() {
        let text = "## a\nUser (Anna): x\n! filler 2\n! learn\n! restart\n! remember tea at four\n! forget x\n\
                    ! forget session a\n! file NOW.md\n# Now\n- tea\n? q\n+ a\n";

        let acts = acts(text);

        assert!(matches!(&acts[0], Act::Say(said) if said.speaker.as_deref() == Some("Anna")));
        assert_eq!(acts[1..5].iter().filter(|act| matches!(act, Act::Say(_))).count(), 4);
        assert!(matches!((&acts[5], &acts[6], &acts[7]), (Act::Learn, Act::Restart, Act::Note(_))));
        assert!(matches!(&acts[8], Act::Forget { what: Target::Saying(text), .. } if text == "x"));
        assert!(matches!(&acts[9], Act::Forget { what: Target::Session(name), .. } if name == "a"));
        assert!(matches!(&acts[10], Act::File { name, text, .. } if name == "NOW.md" && text == "# Now\n- tea"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        refused("User: x\n? y\n+ x\n", 1, "a heading is missing");
        refused("## a\nhello\n", 2, "begins nothing");
        refused("## a\nBob: hello\n", 2, "begins nothing");
        refused("## \n", 1, "names no session");
        refused("## , +3 days\n", 1, "names no session");
        refused("## a, soon\nUser: x\n", 1, "at: \"soon\" is no time");
        refused("## a\n? x\n* y\n", 3, "expects nothing");
        refused("## a\n? x\nrank: first\n", 3, "no number");
        refused("## a\n? x\nwindow: 300\n", 2, "window: is a number");
        refused("## a\n? x\n", 2, "nothing is expected");
        refused("## a\n! reboot\n", 2, "is no command");
        refused("## a\n! filler many\n", 2, "no number of exchanges");
        refused("## a\nUser:\n? x\n+ y\n", 2, "user: must not be blank");
        refused("## a\nUser: x\n```\nno end\n", 3, "has no end");
        refused("---\nname: x\n", 1, "the front matter has no end");
        refused("---\nname: x\ncolour: red\n---\n## a\n", 3, "colour");
        refused("# only prose\n", 1, "asks nothing");
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "(## a\n|User: |\\? |\\+ |! |---\n|```\n|\\PC{0,8}\n){0,12}") {
            let _ = parse(&text, "x");
        }

        #[test]
        fn what_is_said_comes_out_as_it_was_written(lines in proptest::collection::vec("[a-z][a-z .:*#]{0,12}[a-z]", 1..5)) {
            let text = lines.join("\n");
            let script = format!("## a\nUser: {text}\n? q\n+ x\n");

            prop_assert_eq!(&said(&script)[0].text, &text);
        }
    }
}
