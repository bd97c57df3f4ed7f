//! Sealed collections from a shell: made, unlocked, locked, shared, rotated, shredded; and what is said when that cannot be.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::place::{Place, shown};

/// A place with a server, in which tries of passphrases are quick.
fn place(name: &str) -> Place {
    let mut place = Place::new(name);
    place.settings.push(("SKYMEM_LAYERS__VAULT__PASSPHRASE_WORK".into(), "4".into()));
    place
}

/// Makes an identity in a file of that name; the file and the recipient.
fn identity(place: &Place, name: &str) -> (String, String) {
    let file = place.folder.path().join(name).to_str().unwrap().to_owned();
    let made = place.json(&["vault", "keygen", &file]);
    (file, made["recipient"].as_str().unwrap().to_owned())
}

/// Runs a command that reads a passphrase, or an identity, from its standard input.
fn typing(place: &Place, arguments: &[&str], typed: &str) -> Output {
    let mut command = place.command(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", shown(output));
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn works(output: &Output) -> String {
    assert!(output.status.success(), "{}", shown(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn say(place: &Place, text: &str) {
    place.json(&["remember", text, "--collection", "health"]);
}

fn recalls(place: &Place, text: &str) -> bool {
    place.text(&["recall", "what is my blood type?"]).contains(text)
}

#[test]
fn a_person_seals_unlocks_and_locks() {
    let mut place = place("vault");
    place.settings.push(("SKYMEM_LOG__FILTER".into(), "trace".into()));
    let _server = place.serve();
    let (file, recipient) = identity(&place, "identity.txt");
    assert!(place.error(&["vault", "keygen", &file], 1).contains("there already"), "a secret is never overwritten");
    assert!(place.text(&["vault", "status"]).contains("No sealed collections yet"));
    assert!(
        place.text(&["vault", "seal", "health", "--recipient", &recipient]).contains("Collection health is sealed.")
    );
    say(&place, "My blood type is AB negative.");
    assert!(!recalls(&place, "AB negative"));
    assert!(place.text(&["vault", "status"]).contains("locked"));

    let unlocked = place.text(&["vault", "unlock", "health", "--identity", &file, "--minutes", "30"]);

    assert!(unlocked.contains("health: unlocked until") && unlocked.contains("1 exchange"), "{unlocked}");
    assert!(recalls(&place, "AB negative"));
    assert!(place.text(&["vault", "lock", "health"]).contains("1 collection locked."));
    assert!(place.text(&["vault", "lock"]).contains("0 collections locked."));
    assert!(!recalls(&place, "AB negative"));
    let secret = std::fs::read_to_string(&file).unwrap();
    works(&typing(&place, &["vault", "unlock", "health", "--identity", "-"], &secret));
    assert!(recalls(&place, "AB negative"), "an identity on standard input");
    let log = std::fs::read_to_string(place.folder.path().join("log")).unwrap();
    assert!(!log.contains("AB negative") && !log.contains("AGE-SECRET-KEY"), "{log}");
}

#[test]
fn what_opens_nothing_is_told_apart() {
    let place = place("vault_wrong");
    let _server = place.serve();
    let (file, recipient) = identity(&place, "identity.txt");
    let (other, _) = identity(&place, "other.txt");
    let sealed =
        typing(&place, &["vault", "seal", "health", "--recipient", &recipient, "--passphrase"], "correct horse\n");
    works(&sealed);
    let unlock = |identity: &str| place.error(&["vault", "unlock", "health", "--identity", identity], 1);

    assert!(unlock(&other).contains("none of its recipients"));
    assert!(unlock("nowhere.txt").contains("cannot read the identity nowhere.txt"), "lost");
    let secret = std::fs::read_to_string(&file).unwrap();
    let cut = place.file("cut.txt", &secret[..secret.len() - 9]);
    let fault = unlock(cut.to_str().unwrap());
    assert!(fault.contains("no whole secret key") && !fault.contains("AGE-SECRET-KEY-1Q"), "{fault}");
    assert!(unlock(place.file("empty.txt", "\n").to_str().unwrap()).contains("is empty"));
    let binary = place.folder.path().join("binary.txt");
    std::fs::write(&binary, [0xff, 0x00]).unwrap();
    assert!(unlock(binary.to_str().unwrap()).contains("is no text"));
    assert!(
        refused(&typing(&place, &["vault", "unlock", "health"], "wrong horse\n")).contains("passphrase does not open")
    );
    assert!(refused(&typing(&place, &["vault", "unlock", "health"], "")).contains("no passphrase on standard input"));
    assert!(place.error(&["vault", "unlock", "work", "--identity", &file], 1).contains("work"), "it is not sealed");
    assert!(place.error(&["vault", "unlock", "health", "--credential", "x"], 1).contains("CREDENTIALS_DIRECTORY"));
    place.error(&["vault", "unlock", "health", "--identity", &file, "--minutes", "10081"], 2);
    assert!(place.error(&["vault", "seal", "other"], 1).contains("recipient"), "nobody could unlock it");
    let fault = place.error(&["vault", "seal", "other", "--recipient", secret.lines().last().unwrap()], 1);
    assert!(!fault.contains("AGE-SECRET-KEY-1Q"), "a secret in the wrong place is not repeated: {fault}");
    assert!(place.error(&["vault", "seal", "health", "--recipient", &recipient], 1).contains("sealed already"));
    assert!(place.error(&["vault", "seal", "default", "--recipient", &recipient], 1).contains("stays open"));
    assert!(refused(&typing(&place, &["vault", "seal", "other", "--passphrase"], "short\n")).contains("8 characters"));

    works(&typing(&place, &["vault", "unlock", "health"], "correct horse\n"));
    let folder = place.folder.path().join("credentials");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(&file, folder.join("health")).unwrap();
    let mut by_credential = place.command(&["vault", "unlock", "health", "--credential", "health"]);
    works(&by_credential.env("CREDENTIALS_DIRECTORY", &folder).output().unwrap());
}

#[test]
fn recipients_come_and_go_and_what_is_shredded_is_gone() {
    let place = place("vault_keys");
    let _server = place.serve();
    let (first, recipient) = identity(&place, "first.txt");
    let (second, other) = identity(&place, "second.txt");
    place.text(&["vault", "seal", "health", "--recipient", &recipient]);
    say(&place, "My blood type is AB negative.");

    assert!(place.text(&["vault", "recipients", "health"]).contains(&recipient));
    let locked = place.error(&["vault", "recipients", "health", "--add", &other], 1);
    assert!(locked.contains("skymem vault unlock health"), "{locked}");
    place.text(&["vault", "unlock", "health", "--identity", &first]);
    assert!(place.error(&["vault", "recipients", "health", "--add", "age1nonsense"], 1).contains("is no recipient"));
    assert!(place.text(&["vault", "recipients", "health", "--add", &other]).contains(&other));
    works(&typing(&place, &["vault", "recipients", "health", "--passphrase"], "correct horse\n"));
    assert!(place.error(&["vault", "recipients", "health", "--remove", "age1nobody"], 1).contains("age1nobody"));
    assert!(place.error(&["vault", "rotate", "health"], 1).contains("passphrase"), "it has one, and none was given");
    works(&typing(&place, &["vault", "rotate", "health", "--passphrase"], "correct horse\n"));
    place.text(&["vault", "recipients", "health", "--remove", &recipient]);
    place.text(&["vault", "recipients", "health", "--remove", "passphrase"]);
    assert!(place.error(&["vault", "recipients", "health", "--remove", &other], 1).contains("nobody could open"));
    place.text(&["vault", "lock"]);
    assert!(place.error(&["vault", "unlock", "health", "--identity", &first], 1).contains("none of its recipients"));
    place.text(&["vault", "unlock", "health", "--identity", &second]);
    assert!(recalls(&place, "AB negative"));

    assert!(place.error(&["vault", "shred", "health", "--confirm", "yes"], 1).contains("typed again"));
    assert!(place.text(&["vault", "shred", "health", "--confirm", "health"]).contains("1 exchange shredded."));
    assert!(place.error(&["vault", "unlock", "health", "--identity", &second], 1).contains("health"));
}

#[test]
fn a_collection_with_something_in_it_is_sealed_whole_and_the_shell_says_so() {
    let place = place("vault_late");
    let _server = place.serve();
    let (file, recipient) = identity(&place, "identity.txt");
    say(&place, "My blood type is AB negative.");
    place.json(&["remember", "The office moved to Bonn."]);

    let sealed = place.text(&["vault", "seal", "health", "--recipient", &recipient]);

    assert!(sealed.contains("1 exchange with 1 turn stood in it in the clear"), "{sealed}");
    assert!(sealed.contains("Nothing is left where it was looked."), "{sealed}");
    assert!(!recalls(&place, "AB negative"));
    assert!(!place.text(&["exchanges"]).contains("AB negative"));
    assert!(place.text(&["recall", "where is the office?"]).contains("Bonn"));
    assert!(place.text(&["purge", "receipts"]).contains("sealed"));
    place.text(&["vault", "unlock", "health", "--identity", &file]);
    assert!(recalls(&place, "AB negative"));
}

#[test]
fn a_server_unlocks_at_its_start_what_it_is_told_to_and_says_what_it_cannot() {
    let mut place = place("vault_start");
    let server = place.serve();
    let (file, recipient) = identity(&place, "identity.txt");
    place.text(&["vault", "seal", "health", "--recipient", &recipient]);
    place.text(&["vault", "seal", "diary", "--recipient", &recipient]);
    say(&place, "My blood type is AB negative.");
    server.stop();
    let set = |place: &mut Place, name: &str, value: &str| {
        place.settings.push((format!("SKYMEM_UNLOCK__{name}"), value.into()))
    };
    set(&mut place, "HEALTH__IDENTITY_FILE", &file);
    set(&mut place, "HEALTH__MINUTES", "30");
    set(&mut place, "DIARY__CREDENTIAL", "diary");

    let server = place.serve();

    assert!(recalls(&place, "AB negative"), "no one had to unlock it");
    let log = std::fs::read_to_string(place.folder.path().join("log")).unwrap();
    assert!(log.contains("[unlock.diary]") && log.contains("CREDENTIALS_DIRECTORY is not set"), "{log}");
    let doctor = place.json(&["doctor"]);
    let found: Vec<&Value> =
        doctor["checks"].as_array().unwrap().iter().filter(|check| check["of"] == "unlocking").collect();
    assert_eq!(found.len(), 2, "{doctor:#}");
    assert!(found[0]["state"] == "warn" && found[0]["found"].as_str().unwrap().contains("diary"), "{doctor:#}");
    assert_eq!((&found[1]["state"], &found[1]["found"]), (&"ok".into(), &"collection health is unlocked".into()));
    server.stop();

    std::fs::write(&file, "AGE-SECRET-KEY-1NOTWHOLE\n").unwrap();
    let server = place.serve();
    assert!(!recalls(&place, "AB negative"), "it stays locked, and the server runs");
    let log = std::fs::read_to_string(place.folder.path().join("log")).unwrap();
    assert!(log.contains("[unlock.health]") && log.contains("no whole secret key"), "{log}");
    assert!(!log.contains("NOTWHOLE"), "{log}");
    assert!(place.text(&["doctor"]).contains("no whole secret key"));
    server.stop();

    set(&mut place, "HEALTH__CREDENTIAL", "health");
    assert!(place.error(&["serve"], 1).contains("are both set"), "settings that contradict each other");
}
