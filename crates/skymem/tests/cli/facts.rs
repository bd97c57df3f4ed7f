//! Facts from a shell.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Place, shown};

/// The list of facts, once each of its lines holds what it should: layers learn in the background, and until then a list may
/// be as long as the one that is waited for.
#[track_caller]
fn listed(place: &Place, arguments: &[&str], each: &[&str]) -> Vec<String> {
    let began = Instant::now();
    loop {
        let text = place.text(&[&["facts", "list"], arguments].concat());
        let lines: Vec<String> = text.lines().filter(|line| *line != "No facts.").map(str::to_owned).collect();
        if lines.len() == each.len() && lines.iter().zip(each).all(|(line, words)| line.contains(words)) {
            return lines;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{arguments:?}: {lines:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The id that a line of a list begins with.
fn id(line: &str) -> &str {
    line.split(' ').next().unwrap()
}

#[test]
fn a_person_tells_lists_corrects_and_undoes() {
    let place = Place::new("facts");
    let server = place.serve();
    let told = place.text(&["facts", "add", "Anna", "lives_in", "Bonn", "--from", "2020"]);
    assert!(told.starts_with("Told as ") && told.contains("`skymem forget "), "{told}");
    assert!(place.text(&["facts", "add", "Anna", "lives_in", "Bonn", "--from", "2020"]).starts_with("Told before"));
    place.text(&["facts", "add", "Anna", "lives_in", "Bremen", "--from", "2024-05"]);
    place.text(&["facts", "add", "Anna", "born_on", "1990-05-01", "--literal"]);

    let now = listed(&place, &["Anna", "--predicate", "lives_in"], &["Bremen"]);
    assert!(now[0].contains("2024-05-01 – …"), "{now:?}");
    let then = listed(&place, &["Anna", "--predicate", "lives_in", "--as-of", "2022-06"], &["Bonn"]);
    assert!(then[0].contains("2020-01-01 – 2024-05-01"), "{then:?}");
    let all = listed(&place, &["Anna", "--history"], &[""; 3]);
    assert!(all.iter().all(|line| !line.contains('\u{1b}')), "no colours in a pipe: {all:?}");
    assert!(place.text(&["facts", "show", id(&now[0])]).contains("asserted: "));
    assert_eq!(place.text(&["facts", "history", id(&now[0])]).lines().count(), 2);

    let ended = place.json(&["facts", "end", id(&now[0]), "--at", "2025-01-01"]);
    assert_eq!(ended["fate"], "stored");
    listed(&place, &["Anna", "--predicate", "lives_in"], &[]);
    place.text(&["forget", ended["exchange"].as_str().unwrap()]);
    listed(&place, &["Anna", "--predicate", "lives_in"], &["Bremen"]);
    place.text(&["facts", "retract", id(&now[0])]);
    // What it had ended holds on.
    listed(&place, &["Anna", "--predicate", "lives_in"], &["Bonn"]);

    let entities = place.text(&["facts", "entities", "ann"]);
    assert!(entities.contains("Anna") && entities.contains("person"), "{entities}");
    place.text(&["facts", "merge", "Anna", "Annie"]);
    place.text(&["facts", "kind", "Bonn", "place"]);
    assert!(place.error(&["facts", "kind", "Bonn", "planet"], 2).contains("planet"));
    server.stop();
}

#[test]
fn facts_go_out_and_come_in_again() {
    let place = Place::new("facts_files");
    let server = place.serve();
    let rows: String = (0..1_200)
        .map(|number| format!("Person {number},knows,Person {},2020-0{}\n", number + 1, number % 9 + 1))
        .collect();
    let file = place.file("facts.csv", &format!("subject,predicate,object,valid_from\n{rows}Anna,,Bremen,\n"));
    let file = file.to_str().unwrap();

    let would = place.json(&["facts", "import", file, "--dry-run"]);
    assert_eq!((&would["statements"], &would["problems"]), (&json!(1_200), &json!(1)));
    let done = place.json(&["facts", "import", file, "--wait"]);
    assert_eq!(
        (&done["recorded"], &done["problems"], &done["still_being_learned"]),
        (&json!(1_200), &json!(1), &json!(0))
    );
    assert!(done["first_problems"][0].as_str().unwrap().starts_with("facts.csv: line 1202: predicate"), "{done:#}");
    let again = place.run(&["facts", "import", file, "--strict", "--json"]);
    assert_eq!(again.status.code(), Some(1), "{}", shown(&again));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["recorded"], &again["already"]), (&json!(0), &json!(1_200)));

    let path = place.text(&["facts", "path", "Person 3", "Person 6"]);
    assert!(path.starts_with("Person 3 —knows→ Person 4 —knows→ Person 5 —knows→ Person 6\n"), "{path}");
    assert!(place.text(&["facts", "path", "Person 3", "Person 900"]).contains("not linked"));
    assert_eq!(place.text(&["facts", "around", "Person 5", "--hops", "1"]).lines().count(), 2);
    assert!(place.text(&["facts", "groups", "--limit", "1"]).contains("link"));

    let csv = place.text(&["facts", "export", "--format", "csv"]);
    assert!(csv.starts_with("subject,predicate,object") && csv.ends_with("\r\n"), "{csv:.200}");
    assert_eq!(csv.lines().count(), 1_201);
    let dot = place.folder.path().join("facts.dot");
    let wrote = place.json(&["facts", "export", "--format", "dot", "--output", dot.to_str().unwrap()]);
    assert_eq!(wrote["bytes"], json!(std::fs::metadata(&dot).unwrap().len()));
    place.text(&["--user", "me", "facts", "export", "--format", "cytoscape", "--as-of", "2019"]);
    // What was exported is what is known already, from standard input too.
    let mut import = place.command(&["facts", "import", "-", "--json"]);
    let mut import = import.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(csv.as_bytes()).unwrap();
    let imported: Value = serde_json::from_slice(&import.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(imported["problems"], json!(0), "{imported:#}");
    server.stop();
}

#[test]
fn what_cannot_be_is_said_in_words() {
    let place = Place::new("facts_errors");
    let server = place.serve();
    for (arguments, code, says) in [
        (&["facts", "add", "Anna", "lives_in"][..], 2, "OBJECT"),
        (&["facts", "add", "Anna", "lives_in", "Bremen", "--from", "May"], 2, "is not a time"),
        (&["facts", "add", "Anna", "lives_in", "anna"], 1, "is the subject itself"),
        (&["facts", "add", "Anna", "lives_in", "Bremen", "--confidence", "2"], 1, "confidence"),
        (&["facts", "add", "Anna", "lives_in", "Bremen", "--from", "2024", "--until", "2023"], 1, "until"),
        (&["facts", "list", "nobody"], 1, "nobody"),
        (&["facts", "list", "--history", "--as-of", "2024"], 2, "cannot be used with"),
        (&["facts", "show", "1"], 1, "UUID"),
        (&["facts", "path", "a", "b", "--hops", "9"], 2, "9 is not in 1..=6"),
        (&["facts", "split", "Anna", "Anne"], 2, "--fact"),
        (&["facts", "export"], 2, "--format"),
        (&["facts", "export", "--format", "csv", "--output", "/nosuch/facts.csv"], 1, "cannot write /nosuch/facts.csv"),
        (&["facts", "import", "nosuch.csv"], 1, "cannot open nosuch.csv"),
        (&["facts", "import", "."], 1, "is a folder"),
    ] {
        let error = place.error(arguments, code);
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
    let empty = place.file("empty.csv", "");
    assert!(place.error(&["facts", "import", empty.to_str().unwrap()], 1).contains("the file is empty"));
    let other = place.file("other.csv", "name,age\nAnna,36\n");
    assert!(place.error(&["facts", "import", other.to_str().unwrap()], 1).contains("subject"));
    server.stop();
}
