//! How somebody is reached: e-mail, telephone, address.

use regex::Captures;
use skymem_core::facts::Object;

use super::rules::{Teller, value};

/// The address in `o`.
pub(super) fn email(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let address = value(found).trim_end_matches(['.', ',', '!', ')', ';', '>']).trim_start_matches('<');
    let good = address.split_once('@').is_some_and(|(who, host)| {
        !who.is_empty() && host.contains('.') && !host.starts_with('.') && !host.contains('@')
    });
    if good {
        teller.holds("email", Object::Literal(address.to_owned()), false);
    }
}

/// The number in `o`.
pub(super) fn phone(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let number = value(found).trim();
    let digits = number.chars().filter(char::is_ascii_digit).count();
    if (6..=15).contains(&digits) {
        teller.holds("phone", Object::Literal(number.to_owned()), false);
    }
}

/// The address in `o`: it has a number, and begins with a name or a number.
pub(super) fn address(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found).trim();
    let begins = words.starts_with(|c: char| c.is_uppercase() || c.is_numeric());
    if begins && words.chars().any(char::is_numeric) && words.chars().count() <= 120 {
        teller.holds("address", Object::Literal(words.to_owned()), false);
    }
}
