//! Estimates of tokens beside what a real tokenizer counts, on texts that the estimate was not fitted to.

use skymem_core::{Tokenizers, estimate_tokens};
use skymem_models::OpenAiTokenizers;

/// Prose, letters, manuals, dialogues: several texts of each, parted by lines of three dashes.
const TEXTS: [(&str, &str); 14] = [
    ("English", include_str!("texts/english.txt")),
    ("German", include_str!("texts/german.txt")),
    ("Chinese", include_str!("texts/chinese.txt")),
    ("Japanese", include_str!("texts/japanese.txt")),
    ("code", include_str!("texts/code.txt")),
    ("Russian", include_str!("texts/russian.txt")),
    ("Korean", include_str!("texts/korean.txt")),
    ("Arabic", include_str!("texts/arabic.txt")),
    ("Ukrainian", include_str!("texts/ukrainian.txt")),
    ("Vietnamese", include_str!("texts/vietnamese.txt")),
    ("Turkish", include_str!("texts/turkish.txt")),
    ("Greek", include_str!("texts/greek.txt")),
    ("Hindi", include_str!("texts/hindi.txt")),
    ("Thai", include_str!("texts/thai.txt")),
];

#[test]
fn an_estimate_is_within_a_tenth_of_a_real_tokenizer_in_every_language() {
    let counter = OpenAiTokenizers.of_model("gpt-4o").unwrap();
    let mut table = String::from("text           real  estimate\n");
    let mut worst: f64 = 0.0;
    for (language, texts) in TEXTS {
        let (mut real, mut estimated) = (0, 0);
        for (number, text) in texts.split("\n---\n").enumerate() {
            let (counted, guessed) = (counter.count(text).0, estimate_tokens(text).0);
            table.push_str(&format!("{language:<10} {:>2} {counted:>6} {guessed:>9}\n", number + 1));
            let off = guessed as f64 / counted as f64 - 1.0;
            assert!(off.abs() < 0.25, "{language} {number}: {guessed} for {counted}");
            real += counted;
            estimated += guessed;
        }
        let off = estimated as f64 / real as f64 - 1.0;
        table.push_str(&format!("{language:<13} {real:>6} {estimated:>9}  {:+.1} %\n", 100.0 * off));
        worst = worst.max(off.abs());
    }
    println!("{table}");
    assert!(worst <= 0.1, "{table}");
}
