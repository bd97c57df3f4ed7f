//! Which names are of one entity.
//!
//! A name is normalised; the same normalised name is the same entity. Statements join names to one entity and part what
//! was said of one into two, in the order in which they were said; forgetting the statement undoes it.

use std::collections::HashMap;

use skymem_core::ExchangeId;
use skymem_core::UserId;
use skymem_core::facts::{EntityId, EntityKind};
use unicode_normalization::UnicodeNormalization;
use uuid::Uuid;

/// A name as it is compared: compatibility forms composed, lower case, single spaces, without quotes around it,
/// punctuation behind it, and what nobody sees in it. Never stemmed: Ann is not Anne.
pub(crate) fn normal(name: &str) -> String {
    let folded: String = name.nfkc().filter(|c| !is_unseen(*c)).flat_map(char::to_lowercase).collect();
    let words = folded.split_whitespace().collect::<Vec<_>>().join(" ");
    let bare = words.trim_start_matches(is_quote).trim_end_matches(|c| is_quote(c) || is_stop(c)).trim();
    if bare.is_empty() { words } else { bare.to_owned() }
}

/// Whether a character is made not to be seen by itself: soft hyphens, joiners, marks of direction, variants. Two names that
/// look alike are one, also when a word processor has put such a character into one of them.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{AD}'
            | '\u{34F}'
            | '\u{61C}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

fn is_quote(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | '`'
            | '´'
            | '«'
            | '»'
            | '“'
            | '”'
            | '„'
            | '‟'
            | '‘'
            | '’'
            | '‚'
            | '‹'
            | '›'
            | '「'
            | '」'
            | '『'
            | '』'
    )
}

fn is_stop(c: char) -> bool {
    matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '…' | '。' | '，' | '、' | '；' | '：' | '！' | '？')
}

/// Names the entity of a user that is called so.
pub(crate) fn entity_id(user: UserId, normal: &str) -> EntityId {
    EntityId(Uuid::new_v5(&user.0, format!("entity\0{normal}").as_bytes()))
}

/// A statement about names, and the exchange it was told in; `None` when it stands in a file.
#[derive(Debug, Clone)]
pub(crate) struct Naming<'a> {
    pub(crate) exchange: Option<ExchangeId>,
    pub(crate) says: Says<'a>,
}

/// What is said of a name, all names normalised.
#[derive(Debug, Clone)]
pub(crate) enum Says<'a> {
    /// The entity called `name` is called `alias` too.
    Same { name: &'a str, alias: &'a str },
    /// What `exchanges` say of `name` is about another.
    Apart { name: &'a str, other: &'a str, exchanges: &'a [ExchangeId] },
    /// What it is.
    Kind { name: &'a str, kind: EntityKind },
}

/// Who is meant by which name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ids: HashMap<String, usize>,
    /// By name: the one who is called so.
    owner: Vec<usize>,
    beings: Vec<Being>,
    /// By exchange: whom it means, though it names another, in the order in which that was told.
    apart: HashMap<ExchangeId, Vec<(usize, usize)>>,
}

/// Someone or something with at least one name.
#[derive(Debug, Default, Clone)]
struct Being {
    /// What it is called.
    name: usize,
    names: Vec<usize>,
    kind: Option<EntityKind>,
    joined_by: Vec<ExchangeId>,
}

impl Names {
    /// Who is meant by which name after all that was said of names, in this order.
    pub(crate) fn of<'a>(told: impl IntoIterator<Item = Naming<'a>>) -> Self {
        let mut names = Self::default();
        for naming in told {
            names.take(&naming);
        }
        names
    }

    /// The number of the one who is meant when `exchange` speaks of `normal`; made when nobody was called so before.
    pub(crate) fn meant(&mut self, normal: &str, exchange: Option<ExchangeId>) -> usize {
        let mut being = self.being(normal);
        let apart = exchange.and_then(|exchange| self.apart.get(&exchange)).map(Vec::as_slice).unwrap_or_default();
        for (name, other) in apart {
            if self.owner.get(*name) == Some(&being) {
                being = self.owner.get(*other).copied().unwrap_or(being);
            }
        }
        being
    }

    /// The number of the one who is called so, if there is one.
    pub(crate) fn known(&self, normal: &str) -> Option<usize> {
        self.owner.get(*self.ids.get(normal)?).copied()
    }

    /// Lets `alias` be one more name of the one called `name`, for another reason than that somebody said so.
    pub(crate) fn join(&mut self, name: &str, alias: &str) {
        let (name, alias) = (self.being(name), self.being(alias));
        self.merge(name, alias, None);
    }

    /// How many names there are.
    pub(crate) fn names(&self) -> usize {
        self.owner.len()
    }

    /// Names of the one with this number, as they are compared, what it is called first.
    pub(crate) fn names_of(&self, being: usize) -> impl Iterator<Item = usize> {
        // Whoever was merged into another has no names left.
        let being = self.beings.get(being).filter(|being| !being.names.is_empty());
        let others = being.into_iter().flat_map(|being| being.names.iter().copied().filter(|name| *name != being.name));
        being.map(|being| being.name).into_iter().chain(others)
    }

    /// What was said that it is.
    pub(crate) fn kind_of(&self, being: usize) -> Option<EntityKind> {
        self.beings.get(being)?.kind
    }

    /// The statements that joined or parted its names.
    pub(crate) fn joined_by(&self, being: usize) -> &[ExchangeId] {
        self.beings.get(being).map(|being| being.joined_by.as_slice()).unwrap_or_default()
    }

    /// Every name there is with its number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, usize)> {
        self.ids.iter().map(|(name, id)| (name.as_str(), *id))
    }

    fn take(&mut self, naming: &Naming<'_>) {
        match naming.says {
            Says::Same { name, alias } => {
                let (into, from) = (self.being(name), self.being(alias));
                self.merge(into, from, naming.exchange);
                let name = self.id(name);
                if let Some(being) = self.beings.get_mut(into) {
                    being.name = name;
                }
            }
            Says::Apart { name, other, exchanges } => {
                let (one, name_id, other_id) = (self.being(name), self.id(name), self.id(other));
                if name_id == other_id {
                    return;
                }
                let two = self.part(one, name_id, other_id);
                for being in [one, two] {
                    self.note(being, naming.exchange);
                }
                for exchange in exchanges {
                    self.apart.entry(*exchange).or_default().push((name_id, other_id));
                }
            }
            Says::Kind { name, kind } => {
                let being = self.being(name);
                if let Some(being) = self.beings.get_mut(being) {
                    being.kind = Some(kind);
                }
            }
        }
    }

    fn id(&mut self, normal: &str) -> usize {
        if let Some(id) = self.ids.get(normal) {
            return *id;
        }
        let id = self.owner.len();
        self.ids.insert(normal.to_owned(), id);
        self.owner.push(self.beings.len());
        self.beings.push(Being { name: id, names: vec![id], ..Being::default() });
        id
    }

    fn being(&mut self, normal: &str) -> usize {
        let id = self.id(normal);
        self.owner.get(id).copied().unwrap_or(id)
    }

    fn merge(&mut self, into: usize, from: usize, because: Option<ExchangeId>) {
        if into != from
            && let Some(gone) = self.beings.get_mut(from).map(std::mem::take)
        {
            for name in &gone.names {
                if let Some(owner) = self.owner.get_mut(*name) {
                    *owner = into;
                }
            }
            if let Some(being) = self.beings.get_mut(into) {
                being.names.extend(gone.names);
                being.kind = being.kind.or(gone.kind);
                being.joined_by.extend(gone.joined_by);
            }
        }
        self.note(into, because);
    }

    fn note(&mut self, being: usize, because: Option<ExchangeId>) {
        if let (Some(being), Some(because)) = (self.beings.get_mut(being), because)
            && !being.joined_by.contains(&because)
        {
            being.joined_by.push(because);
        }
    }

    /// The one called `other`, who is not `one` from here on.
    fn part(&mut self, one: usize, name: usize, other: usize) -> usize {
        let two = self.owner.get(other).copied().unwrap_or(one);
        if two != one {
            return two;
        }
        let two = self.beings.len();
        if let Some(being) = self.beings.get_mut(one) {
            being.names.retain(|known| *known != other);
            if being.name == other {
                being.name = name;
            }
        }
        if let Some(owner) = self.owner.get_mut(other) {
            *owner = two;
        }
        self.beings.push(Being { name: other, names: vec![other], ..Being::default() });
        two
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_are_written_otherwise_are_one_and_others_are_not() {
        let same = [
            ("Anna", "ANNA"),
            ("Anna  Schmidt", " anna schmidt "),
            ("Zoe\u{308}", "Zoë"),
            ("Ａｎｎａ", "anna"),
            ("\"Heron\"", "Heron."),
            ("„Heron“", "heron"),
            ("Anna\u{200f}", "\u{202a}Anna\u{202c}"),
            ("Han\u{ad}nah", "Hannah\u{feff}"),
            ("skymem?", "skymem"),
            ("小米。", "小米"),
        ];
        for (one, other) in same {
            assert_eq!(normal(one), normal(other), "{one} {other}");
        }
        for (one, other) in
            [("Ann", "Hannah"), ("Ann", "Anne"), ("C", "C++"), ("C#", "C"), ("Zoe", "Zoë"), ("a.b", "ab")]
        {
            assert_ne!(normal(one), normal(other), "{one} {other}");
        }
        assert_eq!(normal("?"), "?", "a name is never empty");
    }

    fn exchange(number: u128) -> ExchangeId {
        ExchangeId(Uuid::from_u128(number))
    }

    fn told(number: u128, says: Says<'_>) -> Naming<'_> {
        Naming { exchange: Some(exchange(number)), says }
    }

    #[test]
    fn joined_names_are_one_and_called_by_the_first() {
        let mut names = Names::of([
            told(1, Says::Same { name: "anna", alias: "annie" }),
            told(2, Says::Same { name: "anna schmidt", alias: "annie" }),
        ]);

        let anna = names.meant("anna", None);
        assert_eq!(anna, names.meant("annie", None));
        assert_eq!(anna, names.meant("anna schmidt", None));
        assert_ne!(anna, names.meant("hannah", None));
        let called: Vec<usize> = names.names_of(anna).collect();
        assert_eq!(called.len(), 3);
        assert_eq!(names.ids["anna schmidt"], called[0]);
        assert_eq!(names.joined_by(anna), [exchange(1), exchange(2)]);
    }

    #[test]
    fn what_some_exchanges_say_is_about_another() {
        let exchanges = [exchange(7)];
        let apart = Says::Apart { name: "anna", other: "anna b", exchanges: &exchanges };
        let mut names = Names::of([told(1, Says::Same { name: "anna", alias: "annie" }), told(2, apart)]);

        let (one, two) = (names.meant("anna", None), names.meant("anna", Some(exchange(7))));
        assert_ne!(one, two);
        assert_eq!(two, names.meant("anna b", None));
        assert_eq!(two, names.meant("annie", Some(exchange(7))), "by whichever name");
        assert_eq!(one, names.meant("anna", Some(exchange(8))));
        assert_eq!(names.joined_by(two), [exchange(2)]);
    }

    #[test]
    fn a_name_that_was_joined_can_be_parted_and_joined_again() {
        let join = || Says::Same { name: "anna", alias: "anna b" };
        let apart = || Says::Apart { name: "anna", other: "anna b", exchanges: &[] };

        let mut parted = Names::of([told(1, join()), told(2, apart())]);
        let mut joined = Names::of([told(1, join()), told(2, apart()), told(3, join())]);

        assert_ne!(parted.meant("anna", None), parted.meant("anna b", None));
        assert_eq!(joined.meant("anna", None), joined.meant("anna b", None));
    }

    #[test]
    fn the_last_kind_that_was_said_counts_for_all_names() {
        let mut names = Names::of([
            told(1, Says::Kind { name: "heron", kind: EntityKind::Animal }),
            told(2, Says::Same { name: "heron db", alias: "heron" }),
            told(3, Says::Kind { name: "heron", kind: EntityKind::Technology }),
        ]);

        let heron = names.meant("heron db", None);
        assert_eq!(names.kind_of(heron), Some(EntityKind::Technology));
    }

    proptest! {
        #[test]
        fn every_name_is_of_exactly_one_being(told in prop::collection::vec((0..6_usize, 0..6_usize, 0..3_u8), 0..30)) {
            let letters = ["a", "b", "c", "d", "e", "f"];
            let exchanges = [exchange(1)];
            let mut names = Names::of(told.iter().map(|(one, other, what)| {
                let (name, other) = (letters[*one], letters[*other]);
                Naming { exchange: None, says: match what {
                    0 => Says::Same { name, alias: other },
                    1 => Says::Apart { name, other, exchanges: &exchanges },
                    _ => Says::Kind { name, kind: EntityKind::Person },
                } }
            }));
            for name in letters {
                let being = names.meant(name, None);
                let id = names.ids[name];
                let holds = |other: &usize| names.names_of(*other).any(|known| known == id);
                let holders: Vec<usize> = (0..names.beings.len()).filter(holds).collect();
                prop_assert_eq!(holders, vec![being]);
            }
        }
    }
}
