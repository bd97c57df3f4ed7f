//! What a person leaves out, forgets, purges and looks up in the log, from a shell.

use serde_json::Value;

use crate::place::Place;

#[test]
fn a_person_forgets_for_good_and_has_it_in_writing() {
    let place = Place::new("gone");
    let _server = place.serve();
    place.json(&["remember", "the hint for the vault is a blue heron"]);
    place.json(&["remember", "the bicycle is green"]);

    assert!(place.text(&["forget", "--text", "Blue Heron"]).contains("1 exchange would be forgotten. --yes does it."));
    assert!(place.text(&["forget", "--text", "Blue Heron", "--yes"]).contains("1 exchange forgotten"));
    assert!(
        place.text(&["purge", "--text", "blue heron"]).contains("1 exchange would be gone for good. --yes does it.")
    );
    let purged = place.json(&["purge", "--text", "blue heron", "--yes"]);
    assert_eq!((&purged["count"], &purged["receipt"]["receipt"]["clean"]), (&1.into(), &true.into()), "{purged}");
    assert!(place.text(&["purge", "--trash", "--yes"]).contains("nothing to purge"));
    assert!(place.error(&["purge"], 1).contains("say what"));

    let receipt = place.file("receipt.json", &purged.to_string());
    let valid = place.text(&["purge", "verify", receipt.to_str().unwrap()]);
    assert!(valid.contains("this server's, as it was made") && valid.contains("write-ahead log"), "{valid}");
    let mut forged: Value = purged["receipt"].clone();
    forged["receipt"]["exchanges"] = 7.into();
    let forged = place.file("forged.json", &forged.to_string());
    place.error(&["purge", "verify", forged.to_str().unwrap(), "--json"], 1);
    assert!(place.text(&["purge", "receipts"]).contains("nothing left"));
    let id = purged["receipt"]["receipt"]["id"].as_str().unwrap();
    assert!(place.text(&["purge", "receipts", id]).contains("Nothing is left"));

    let log = place.text(&["audit", "list"]);
    assert!(log.contains("purged") && log.contains("forgot") && !log.contains("heron"), "{log}");
    assert!(place.text(&["audit", "verify"]).contains("as it was written"));
    let other = "0".repeat(64);
    place.error(&["audit", "verify", "--head", &other, "--json"], 1);
}

#[test]
fn a_person_says_what_is_done_about_their_secrets() {
    let place = Place::new("secrets");
    let _server = place.serve();

    assert!(place.text(&["secrets"]).contains("left out"));
    let note = place.json(&["remember", "the wifi password is hunter2!x"]);
    assert_eq!(note["secrets"]["found"]["password"], 1, "{note}");
    assert!(place.text(&["exchanges"]).contains("[secret: password]"));
    assert!(place.text(&["remember", "the cellar password is hunter4!x"]).contains("Left out: password."));
    assert!(place.text(&["secrets", "allow"]).contains("kept as they are"));
    place.json(&["remember", "the door password is hunter3!x"]);
    assert!(place.text(&["exchanges"]).contains("hunter3!x"));
    assert!(place.text(&["secrets", "default"]).contains("left out"));
}
