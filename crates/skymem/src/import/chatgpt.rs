//! ChatGPT's data export: a list of conversations, each a tree of messages of which one branch is what people see.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::{Map, Value};
use skymem_core::Role;
use zip::ZipArchive;

use super::{Found, ImportedTurn, LONGEST_LINE, Place, Problem, ReadSeek, Sink, times};

/// Reads the list, one conversation at a time: exports have hundreds of megabytes.
pub(super) fn read(reader: impl Read, tools: bool, sink: &mut Sink<'_>) -> Result<()> {
    let mut number = 0;
    read_list(reader, &mut number, tools, sink)
}

/// Reads every `conversations*.json` of the archive that ChatGPT sends; large exports have several.
pub(super) fn read_zip(file: Box<dyn ReadSeek + Send>, tools: bool, sink: &mut Sink<'_>) -> Result<()> {
    let mut archive = ZipArchive::new(file).context("the zip file is damaged or incomplete")?;
    let names = archive.file_names().filter_map(|name| Some(name.ok()?.into_owned()));
    let mut names: Vec<String> = names.filter(|name| holds_conversations(name)).collect();
    names.sort();
    if names.is_empty() {
        bail!("the zip file holds no conversations.json: it is no ChatGPT export");
    }
    let mut number = 0;
    for name in names {
        let entry = archive.by_name(&name).with_context(|| format!("cannot unpack {name}"))?;
        // Unpacking hands out small pieces, and the parser asks byte by byte.
        read_list(BufReader::with_capacity(1 << 16, entry), &mut number, tools, sink).with_context(|| name.clone())?;
    }
    Ok(())
}

fn holds_conversations(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("conversations") && name.ends_with(".json")
}

fn read_list(reader: impl Read, number: &mut u64, tools: bool, sink: &mut Sink<'_>) -> Result<()> {
    let mut stopped = false;
    let before = *number;
    let left = Cell::new(LONGEST_LINE);
    let each = Each(|value: Value| {
        *number += 1;
        left.set(LONGEST_LINE);
        let flow = conversation(&value, Place::Conversation(*number), tools, sink);
        stopped = flow.is_break();
        flow
    });
    let mut json = serde_json::Deserializer::from_reader(Bounded { inner: reader, left: &left });
    let read = json.deserialize_seq(each).and_then(|()| json.end());
    match read {
        _ if stopped => Ok(()),
        Ok(()) if *number == before => bail!("the list of conversations is empty"),
        Ok(()) => Ok(()),
        Err(error) if error.is_io() => Err(anyhow!("it cannot be read after conversation {number}: {error}")),
        Err(error) => Err(anyhow!("it is damaged after conversation {number}: {error}")),
    }
}

/// Reads until no more is `left`: a few packed kilobytes can become a text that fills the memory.
struct Bounded<'a, R> {
    inner: R,
    left: &'a Cell<usize>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            return Err(io::Error::other("a conversation has at most 100 MB"));
        }
        let most = buffer.len().min(self.left.get());
        let read = self.inner.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left.set(self.left.get() - read);
        Ok(read)
    }
}

/// Hands the elements of a list over while it is being parsed.
struct Each<F>(F);

impl<'de, F: FnMut(Value) -> ControlFlow<()>> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element()? {
            if (self.0)(value).is_break() {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

fn conversation(value: &Value, place: Place, tools: bool, sink: &mut Sink<'_>) -> ControlFlow<()> {
    let (session, branch) = match branch(value) {
        Ok(found) => found,
        Err(reason) => return sink(Found::Problem(Problem { place, reason })),
    };
    let title = value.get("title").and_then(Value::as_str).map(str::trim).filter(|title| !title.is_empty());
    let mut at = value.get("create_time").and_then(|time| times::moment(time).ok());
    for (id, message) in branch {
        at = message.get("create_time").and_then(|time| times::moment(time).ok()).or(at);
        let found = match said(message, tools) {
            Ok((role, text)) => Found::Turn(Box::new(ImportedTurn {
                session: session.to_owned(),
                title: title.map(Into::into),
                collection: None,
                role,
                speaker: None,
                content: text.into(),
                occurred_at: at,
                client_id: id.to_owned(),
                place,
            })),
            Err(Unsaid::Nothing) => continue,
            Err(Unsaid::LeftOut(why)) => Found::LeftOut(why),
            Err(Unsaid::Problem(reason)) => Found::Problem(Problem { place, reason }),
        };
        sink(found)?;
    }
    ControlFlow::Continue(())
}

/// The session id of a conversation and the messages of the branch that was last seen, oldest first, with their ids.
fn branch(conversation: &Value) -> Result<(&str, Vec<Message<'_>>), String> {
    let Some(mapping) = conversation.get("mapping").and_then(Value::as_object) else {
        return Err(match conversation.get("messages").or_else(|| conversation.get("role")) {
            Some(_) => "is OpenAI-style, in a list: make JSONL of it with `jq -c '.[]' FILE > FILE.jsonl`".into(),
            None if conversation.get("chat_messages").is_some() => {
                "is of a Claude export, which cannot be read yet".into()
            }
            None => "has no `mapping`: it is no conversation of a ChatGPT export".into(),
        });
    };
    let session = ["conversation_id", "id"]
        .iter()
        .find_map(|key| conversation.get(key)?.as_str())
        .filter(|id| !id.is_empty())
        .ok_or("has no `conversation_id`")?;
    let mut at = match conversation.get("current_node").and_then(Value::as_str) {
        Some(node) if mapping.contains_key(node) => Some(node),
        _ => newest_leaf(mapping),
    };
    if at.is_none() && !mapping.is_empty() {
        return Err("its messages go round in a circle".into());
    }
    let mut branch = Vec::new();
    let mut seen = HashSet::new();
    while let Some(id) = at {
        // A tree has no circles; a damaged one may.
        if !seen.insert(id) {
            return Err("its messages go round in a circle".into());
        }
        let Some(node) = mapping.get(id) else { break };
        if let Some(message) = node.get("message").and_then(Value::as_object) {
            branch.push((message.get("id").and_then(Value::as_str).unwrap_or(id), message));
        }
        at = node.get("parent").and_then(Value::as_str);
    }
    branch.reverse();
    Ok((session, branch))
}

/// A message and its id.
type Message<'a> = (&'a str, &'a Map<String, Value>);

fn newest_leaf(mapping: &Map<String, Value>) -> Option<&str> {
    let is_leaf = |node: &Value| node.get("children").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let time = |node: &Value| node.pointer("/message/create_time").and_then(Value::as_f64).unwrap_or(f64::MIN);
    mapping
        .iter()
        .filter(|(_, node)| is_leaf(node))
        .max_by(|(_, a), (_, b)| time(a).total_cmp(&time(b)))
        .map(|(id, _)| id.as_str())
}

/// Why a message makes no turn.
#[derive(Debug, PartialEq, Eq)]
enum Unsaid {
    /// It is a joint of the tree, or empty.
    Nothing,
    /// People did not see it, or it is not text.
    LeftOut(&'static str),
    /// It is not as it should be.
    Problem(String),
}

/// Who said what in a message.
fn said(message: &Map<String, Value>, tools: bool) -> Result<(Role, String), Unsaid> {
    let text_at = |pointer: &[&str]| {
        let mut value = message.get(*pointer.first()?)?;
        for key in pointer.iter().skip(1) {
            value = value.get(key)?;
        }
        value.as_str()
    };
    let Some(role) = text_at(&["author", "role"]) else {
        return Err(Unsaid::Problem("a message has no author".into()));
    };
    let role: Role = role.parse().map_err(|bad| Unsaid::Problem(format!("author {role:?}: {bad}")))?;
    let content = message.get("content").unwrap_or(&Value::Null);
    let kind = text_at(&["content", "content_type"]).unwrap_or_default();

    let hidden = message.get("metadata").and_then(|about| about.get("is_visually_hidden_from_conversation"));
    let weightless = message.get("weight").and_then(Value::as_f64) == Some(0.0);
    let asks_a_tool = role == Role::Assistant && text_at(&["recipient"]).is_some_and(|to| to != "all");
    let text = words(content).trim().to_owned();
    match kind {
        _ if text.is_empty() => Err(Unsaid::Nothing),
        // Hidden system messages carry no weight either; a tool's answers may be hidden and are then asked for as tools.
        _ if role == Role::System => Err(Unsaid::LeftOut("system")),
        "user_editable_context" | "model_editable_context" => Err(Unsaid::LeftOut("custom instructions")),
        "thoughts" | "reasoning_recap" => Err(Unsaid::LeftOut("thoughts")),
        _ if (role == Role::Tool || asks_a_tool) && tools => Ok((Role::Tool, text)),
        _ if role == Role::Tool || asks_a_tool => Err(Unsaid::LeftOut("tools")),
        _ if weightless || hidden == Some(&Value::Bool(true)) => Err(Unsaid::LeftOut("hidden")),
        _ => Ok((role, text)),
    }
}

/// The text of a message's content, of whatever type; pictures and files leave a word in their place.
fn words(content: &Value) -> String {
    let own = ["text", "result", "content"].iter().find_map(|key| content.get(key)?.as_str());
    let Some(parts) = content.get("parts").and_then(Value::as_array) else {
        return without_marks(own.unwrap_or_default());
    };
    let lines: Vec<String> = parts.iter().map(part).filter(|line| !line.trim().is_empty()).collect();
    without_marks(&lines.join("\n"))
}

fn part(part: &Value) -> String {
    match part {
        Value::String(text) => text.clone(),
        _ => match part.get("content_type").and_then(Value::as_str) {
            Some("image_asset_pointer") => "[image]".into(),
            Some("audio_asset_pointer" | "real_time_user_audio_video_asset_pointer") => String::new(),
            _ => part.get("text").and_then(Value::as_str).unwrap_or_default().into(),
        },
    }
}

/// Cuts out ChatGPT's own marks for citations and widgets: they stand between two characters of private use and mean
/// nothing outside.
fn without_marks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, mark)) = rest.split_once('\u{E200}') {
        plain.push_str(before);
        match mark.split_once('\u{E201}') {
            Some((_, after)) => rest = after,
            // Never closed, so no mark: nothing that was said may get lost.
            None => rest = mark,
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use serde_json::json;

    use super::*;

    fn found_in(export: &str, tools: bool) -> Result<Vec<Found>> {
        let mut all = Vec::new();
        read(export.as_bytes(), tools, &mut |found| {
            all.push(found);
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    fn lines(found: &[Found]) -> Vec<String> {
        found
            .iter()
            .map(|found| match found {
                Found::Turn(turn) => format!("{}: {}", turn.role, turn.content.as_str().unwrap()),
                Found::LeftOut(why) => format!("({why})"),
                Found::Problem(problem) => format!("! {problem}"),
            })
            .collect()
    }

    fn node(id: &str, parent: Option<&str>, message: Value) -> (String, Value) {
        let mut message = message;
        if let Some(object) = message.as_object_mut() {
            object.insert("id".into(), id.into());
        }
        (id.into(), json!({"id": id, "parent": parent, "children": [], "message": message}))
    }

    fn message(role: &str, text: &str) -> Value {
        json!({"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, "recipient": "all"})
    }

    fn export(nodes: Vec<(String, Value)>, current: &str) -> String {
        let mapping: Map<String, Value> = nodes.into_iter().collect();
        json!([{"conversation_id": "c-1", "title": " Trip ", "create_time": 1_700_000_000.5,
                "mapping": mapping, "current_node": current}])
        .to_string()
    }

    #[test]
    fn the_branch_that_people_see_is_followed_and_the_others_are_not() {
        let mut timed = message("user", "question");
        timed["create_time"] = json!(1_700_000_100);
        let text = export(
            vec![
                node("root", None, Value::Null),
                node("q", Some("root"), timed),
                node("old", Some("q"), message("assistant", "first try")),
                node("new", Some("q"), message("assistant", "second try")),
            ],
            "new",
        );

        let found = found_in(&text, false).unwrap();

        assert_eq!(lines(&found), ["user: question", "assistant: second try"]);
        let Found::Turn(answer) = &found[1] else { panic!() };
        assert_eq!((answer.session.as_str(), answer.client_id.as_str()), ("c-1", "new"));
        assert_eq!(answer.title.as_deref(), Some("Trip"));
        assert_eq!(answer.occurred_at.unwrap().timestamp(), 1_700_000_100, "that of the message before");
    }

    #[test]
    fn without_a_current_node_the_newest_leaf_is_taken() {
        let mut late = message("user", "late");
        late["create_time"] = json!(2_000_000_000);
        let text = export(vec![node("late", None, late), node("early", None, message("user", "early"))], "gone");

        assert_eq!(lines(&found_in(&text, false).unwrap()), ["user: late"]);
    }

    fn a_working_conversation() -> String {
        let mut hidden = message("user", "hidden");
        hidden["metadata"] = json!({"is_visually_hidden_from_conversation": true});
        let mut weightless = message("assistant", "weightless");
        weightless["weight"] = json!(0.0);
        let mut call = message("assistant", "print(1)");
        call["recipient"] = json!("python");
        let of_kind = |role: &str, content: Value| json!({"author": {"role": role}, "content": content});
        export(
            vec![
                node("1", None, message("system", "")),
                node("2", Some("1"), message("system", "You are ChatGPT.")),
                node("3", Some("2"), of_kind("user", json!({"content_type": "user_editable_context", "text": "x"}))),
                node("4", Some("3"), hidden),
                node(
                    "5",
                    Some("4"),
                    of_kind(
                        "user",
                        json!({"content_type": "multimodal_text", "parts": [
                    {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}, "What is this?",
                    {"content_type": "audio_transcription", "text": "And this?"}]}),
                    ),
                ),
                node("6", Some("5"), of_kind("assistant", json!({"content_type": "thoughts", "content": "hm"}))),
                node("7", Some("6"), call),
                node("8", Some("7"), of_kind("tool", json!({"content_type": "execution_output", "text": "1"}))),
                node("9", Some("8"), weightless),
                node("10", Some("9"), message("assistant", "A cat \u{E200}cite\u{E202}turn0\u{E201}and a dog")),
            ],
            "10",
        )
    }

    #[test]
    fn what_people_did_not_see_is_left_out_and_counted() {
        let found = found_in(&a_working_conversation(), false).unwrap();

        assert_eq!(
            lines(&found),
            [
                "(system)",
                "(custom instructions)",
                "(hidden)",
                "user: [image]\nWhat is this?\nAnd this?",
                "(thoughts)",
                "(tools)",
                "(tools)",
                "(hidden)",
                "assistant: A cat and a dog",
            ]
        );
    }

    #[test]
    fn what_tools_said_is_kept_when_asked_for() {
        let found = lines(&found_in(&a_working_conversation(), true).unwrap());

        assert!(found.contains(&"tool: print(1)".into()) && found.contains(&"tool: 1".into()), "{found:?}");
    }

    #[track_caller]
    fn check_problem(conversation: Value, expected: &str) {
        let good: Value = serde_json::from_str(&export(vec![node("1", None, message("user", "fine"))], "1")).unwrap();
        let found = lines(&found_in(&json!([conversation, good[0]]).to_string(), false).unwrap());
        assert!(found[0].starts_with("! conversation 1: ") && found[0].contains(expected), "{found:?}");
        assert_eq!(found[1..], ["user: fine"]);
    }

    #[test]
    fn a_bad_conversation_is_reported_and_the_next_one_is_read() {
        check_problem(json!(5), "no `mapping`");
        check_problem(json!({"messages": []}), "OpenAI-style");
        check_problem(json!({"uuid": "1", "chat_messages": []}), "Claude");
        check_problem(json!({"mapping": {}}), "no `conversation_id`");
        check_problem(
            json!({"id": "x", "current_node": "a", "mapping": {"a": {"parent": "b"}, "b": {"parent": "a"}}}),
            "in a circle",
        );
        check_problem(json!({"id": "x", "mapping": {"a": {"message": {"content": {}}}}}), "no author");
        check_problem(json!({"id": "x", "mapping": {"a": {"message": {"author": {"role": "ghost"}}}}}), "ghost");
    }

    #[test]
    fn messages_in_a_circle_are_a_problem_also_when_none_of_them_is_the_last() {
        let circle = json!({"id": "x", "mapping": {"a": {"parent": "b", "children": ["b"]}, "b": {"parent": "a",
            "children": ["a"]}}});
        check_problem(circle, "circle");
    }

    #[test]
    fn a_conversation_without_end_is_given_up_and_the_ones_before_it_stay() {
        let endless = b"[{}, \"".chain(io::repeat(b'x'));
        let mut found = 0;

        let error = read(BufReader::new(endless), false, &mut |_| {
            found += 1;
            ControlFlow::Continue(())
        });

        assert!(error.unwrap_err().to_string().contains("at most 100 MB"));
        assert_eq!(found, 1);
    }

    #[test]
    fn a_damaged_file_says_how_far_it_was_read() {
        let whole = export(vec![node("1", None, message("user", "fine"))], "1");
        let error = found_in(&whole[..whole.len() - 1], false).unwrap_err().to_string();
        assert!(error.starts_with("it is damaged after conversation 1: "), "{error}");

        for (bad, expected) in [("[]", "is empty"), ("{}", "a list of conversations"), ("[1] x", "trailing")] {
            let error = found_in(bad, false).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    fn zipped(files: &[(&str, &str)]) -> Box<dyn ReadSeek + Send> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        Box::new(zip.finish().unwrap())
    }

    #[test]
    fn the_zip_is_read_as_it_comes() {
        let one = export(vec![node("1", None, message("user", "one"))], "1");
        let two = export(vec![node("2", None, message("user", "two"))], "2");
        let mut found = Vec::new();

        read_zip(
            zipped(&[("user.json", "{}"), ("x/conversations-001.json", &two), ("x/conversations-000.json", &one)]),
            false,
            &mut |one| {
                found.push(one);
                ControlFlow::Continue(())
            },
        )
        .unwrap();

        assert_eq!(lines(&found), ["user: one", "user: two"]);
        let Found::Turn(last) = &found[1] else { panic!() };
        assert_eq!(last.place, Place::Conversation(2));
    }

    #[test]
    fn another_zip_is_refused_in_words() {
        let mut nothing = |_| ControlFlow::Continue(());
        let error = read_zip(zipped(&[("photo.txt", "x")]), false, &mut nothing).unwrap_err();
        assert!(error.to_string().contains("no conversations.json"), "{error}");

        let error = read_zip(Box::new(Cursor::new(b"PK\x03\x04rubbish".to_vec())), false, &mut nothing).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}
