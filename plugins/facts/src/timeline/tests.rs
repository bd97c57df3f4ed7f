//! The promises of the fold, by example and by chance.

use proptest::prelude::*;

use super::*;

const BONN: u32 = 1;
const BREMEN: u32 = 2;
const KOLN: u32 = 3;

fn day(day: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_577_836_800 + day * 86_400, 0).unwrap()
}

fn told(said: i64, what: What) -> Told {
    Told { claim: 0, turn: 0, what, said_at: day(said), recorded_at: day(said), withdrawn_at: None }
}

fn holds(said: i64, object: u32) -> Told {
    told(said, What::Holds { object, from: None, until: None, corrects: false })
}

fn since(said: i64, object: u32, from: i64) -> Told {
    told(said, What::Holds { object, from: Some(day(from)), until: None, corrects: false })
}

fn between(said: i64, object: u32, from: i64, until: i64) -> Told {
    told(said, What::Holds { object, from: Some(day(from)), until: Some(day(until)), corrects: false })
}

fn until(said: i64, object: u32, until: i64) -> Told {
    told(said, What::Holds { object, from: None, until: Some(day(until)), corrects: false })
}

fn no(said: i64, object: u32, from: Option<i64>) -> Told {
    told(said, What::Holds { object, from: from.map(day), until: None, corrects: true })
}

fn ends(said: i64, object: Option<u32>, at: Option<i64>) -> Told {
    told(said, What::Ends { object, at: at.map(day) })
}

fn never(said: i64, object: Option<u32>) -> Told {
    told(said, What::NeverHeld { object, from: None })
}

/// A number for each, in the order in which they were said.
fn story(mut told: Vec<Told>) -> Vec<Told> {
    told.sort_by_key(|told| told.said_at);
    for (number, told) in told.iter_mut().enumerate() {
        told.claim = u32::try_from(number).unwrap();
        told.turn = told.claim;
    }
    told
}

/// `B10-20 x2`: value, from day, until day, by how many claims; `~` before a start that nobody said, `!` before what was
/// taken back.
fn shown(held: &[Held]) -> String {
    let number = |at: DateTime<Utc>| (at - day(0)).num_days().to_string();
    let one = |held: &Held| {
        let mark = if held.retracted_at.is_some() { "!" } else { "" };
        let name = ["?", "Bonn", "Bremen", "Köln"].get(held.object as usize).copied().unwrap_or("?");
        let soft = if held.from_is_said { "" } else { "~" };
        let to = held.to.map(number).unwrap_or_default();
        format!("{mark}{name} {soft}{}-{to} x{}", number(held.from), held.claims.len())
    };
    held.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check(told: Vec<Told>, expected: &str) {
    assert_eq!(shown(&fold(&story(told), true)), expected);
}

#[track_caller]
fn check_many(told: Vec<Told>, expected: &str) {
    assert_eq!(shown(&fold(&story(told), false)), expected);
}

#[test]
fn a_new_value_closes_the_one_before_whichever_was_told_first() {
    check(vec![holds(1, BONN), holds(5, BREMEN)], "Bonn ~1-5 x1, Bremen ~5- x1");
    check(vec![since(1, BREMEN, 0), since(2, BONN, -100)], "Bonn -100-0 x1, Bremen 0- x1");
    check(
        vec![since(1, BONN, 0), since(2, KOLN, 50), since(60, BREMEN, 20)],
        "Bonn 0-20 x1, Bremen 20-50 x1, Köln 50- x1",
    );
    check(vec![holds(1, BONN), holds(5, BREMEN), holds(9, BONN)], "Bonn ~1-5 x1, Bremen ~5-9 x1, Bonn ~9- x1");
}

#[test]
fn the_same_value_again_is_more_evidence_and_an_earlier_start_extends_it() {
    check((1..=10).map(|day| holds(day, BONN)).collect(), "Bonn ~1- x10");
    check(vec![holds(5, BONN), since(9, BONN, 2)], "Bonn 2- x2");
    check(vec![holds(5, BONN), since(9, BONN, 7)], "Bonn ~5- x2");
    check(vec![holds(5, BONN), since(9, BONN, 5)], "Bonn 5- x2");
    check(vec![holds(1, BONN), holds(5, BREMEN), since(9, BREMEN, 3)], "Bonn ~1-3 x1, Bremen 3- x2");
}

#[test]
fn what_was_said_after_a_move_does_not_hide_that_it_was_earlier() {
    check(vec![holds(1, BONN), holds(8, BONN), since(9, BREMEN, 5)], "Bonn ~1-5 x2, Bremen 5- x1");
}

#[test]
fn an_end_that_was_said_is_kept() {
    check(vec![between(9, BONN, 0, 5)], "Bonn 0-5 x1");
    check(vec![holds(1, BONN), until(9, BONN, 5)], "Bonn ~1-5 x2");
    check(vec![holds(1, BONN), ends(9, Some(BONN), None)], "Bonn ~1-9 x2");
    check(vec![holds(1, BONN), ends(9, None, Some(4))], "Bonn ~1-4 x2");
    check(vec![holds(1, BONN), ends(9, None, Some(4)), ends(12, Some(BONN), None)], "Bonn ~1-4 x3");
    check(vec![holds(1, BONN), ends(9, None, Some(4)), ends(12, Some(BONN), Some(6))], "Bonn ~1-6 x3");
    check(vec![holds(1, BONN), ends(4, None, None), holds(9, BONN)], "Bonn ~1-4 x2, Bonn ~9- x1");
    check(vec![holds(1, BONN), ends(4, Some(BREMEN), None)], "Bonn ~1-3 x1, Bremen ~3-4 x1");
    check(vec![ends(4, None, None), holds(5, BONN)], "Bonn ~5- x1");
}

#[test]
fn of_what_is_over_the_day_before_is_known() {
    check(vec![until(9, BONN, 5)], "Bonn ~4-5 x1");
    check(vec![ends(9, Some(BONN), Some(5))], "Bonn ~4-5 x1");
    check(vec![holds(7, BONN), ends(9, Some(BONN), Some(5))], "Bonn ~4-5 x2");
    check(vec![holds(7, BONN), ends(9, None, Some(5))], "Bonn ~4-5 x2");
}

#[test]
fn a_time_away_interrupts_what_is_known_to_go_on() {
    check(vec![since(20, BONN, 0), between(21, BREMEN, 5, 9)], "Bonn 0-5 x1, Bremen 5-9 x1, Bonn 9- x1");
    check(vec![since(1, BONN, 0), between(21, BREMEN, 5, 9)], "Bonn 0-5 x1, Bremen 5-9 x1");
}

#[test]
fn what_only_goes_on_later_is_supported_by_all_that_was_said_of_it() {
    let both = vec![since(1, BONN, 0), holds(20, BONN), between(21, BREMEN, 0, 9)];
    check(both.clone(), "Bremen 0-9 x1, Bonn 9- x2");
    check([both, vec![since(22, KOLN, 9)]].concat(), "Bremen 0-9 x1, !Bonn 9- x2, Köln 9- x1");
    check(
        vec![holds(4, BREMEN), ends(6, None, None), ends(6, Some(KOLN), Some(5)), since(6, KOLN, 5)],
        "Köln ~4-5 x1, !Bremen 5-6 x2, Köln 5- x1",
    );
}

#[test]
fn what_never_held_is_taken_back_and_what_it_closed_is_open_again() {
    check(vec![holds(1, BONN), holds(5, BREMEN), never(9, Some(BREMEN))], "Bonn ~1- x1, !Bremen ~5- x1");
    check(vec![holds(1, BONN), holds(5, BREMEN), never(9, None)], "!Bonn ~1- x1, !Bremen ~5- x1");
    check(
        vec![holds(1, BONN), holds(5, BREMEN), holds(7, BONN), never(9, Some(BREMEN))],
        "Bonn ~1- x2, !Bremen ~5- x1",
    );
    check(vec![never(1, Some(BONN)), holds(5, BONN)], "Bonn ~5- x1");
    check(vec![holds(5, BONN), never(6, Some(BONN)), since(9, BONN, 5)], "Bonn 5- x1");
    check(vec![holds(5, BONN), ends(6, Some(BONN), None), never(7, Some(BONN))], "!Bonn ~5-6 x2");
}

#[test]
fn of_two_values_from_the_same_moment_the_last_one_said_is_right_until_it_is_taken_back() {
    let both = vec![since(1, BONN, 0), since(2, BREMEN, 0)];
    check(both.clone(), "!Bonn 0- x1, Bremen 0- x1");
    check([both, vec![never(3, Some(BREMEN))]].concat(), "Bonn 0- x1, !Bremen 0- x1");
}

#[test]
fn a_correction_takes_back_what_was_last_said() {
    check(vec![holds(1, BONN), no(2, BREMEN, None)], "!Bonn ~1- x1, Bremen ~1- x1");
    check(vec![since(1, BONN, 0), no(2, BREMEN, None)], "!Bonn 0- x1, Bremen 0- x1");
    check(vec![holds(1, BONN), no(2, BREMEN, Some(-5))], "Bremen -5- x1, !Bonn ~1- x1");
    check(vec![holds(1, KOLN), holds(5, BONN), no(6, BREMEN, None)], "Köln ~1-5 x1, !Bonn ~5- x1, Bremen ~5- x1");
    check(vec![holds(1, KOLN), holds(5, BONN), no(6, KOLN, None)], "Köln ~1- x2, !Bonn ~5- x1");
    check(vec![between(9, BONN, 0, 5), no(10, BREMEN, None)], "!Bonn 0-5 x1, Bremen 0-5 x1");
    check(vec![no(1, BREMEN, None)], "Bremen ~1- x1");
}

#[test]
fn a_correction_of_the_date_keeps_one_fact() {
    check(vec![holds(1, BONN), since(9, BREMEN, 3), no(10, BREMEN, Some(5))], "Bonn ~1-5 x1, Bremen 5- x2");
    check(vec![holds(1, BONN), since(9, BREMEN, 5), no(10, BREMEN, Some(3))], "Bonn ~1-3 x1, Bremen 3- x2");
    check(vec![holds(1, BONN), no(2, BONN, None)], "Bonn ~1- x2");
    check(vec![since(9, BONN, 3), ends(10, None, Some(8)), no(11, BONN, Some(4))], "Bonn 4-8 x3");
}

#[test]
fn two_corrections_in_one_breath_are_about_what_was_said_in_one_breath() {
    let mut told = story(vec![holds(1, BONN), holds(2, BREMEN), no(3, KOLN, None), no(4, BONN, None)]);
    told[3].turn = told[2].turn;

    assert_eq!(
        shown(&fold(&told, false)),
        "Bonn ~1- x1, !Bremen ~2- x1, Köln ~2- x1, Bonn ~4- x1"
            .replace(", Bonn ~4- x1", "")
            .replace("Bonn ~1- x1", "Bonn ~1- x2")
    );
}

#[test]
fn many_values_do_not_touch_each_other() {
    check_many(vec![holds(1, BONN), holds(2, BREMEN), holds(3, BONN)], "Bonn ~1- x2, Bremen ~2- x1");
    check_many(vec![holds(1, BONN), holds(2, BREMEN), ends(3, Some(BONN), None)], "Bonn ~1-3 x2, Bremen ~2- x1");
    check_many(vec![holds(1, BONN), holds(2, BREMEN), ends(3, None, None)], "Bonn ~1-3 x2, Bremen ~2-3 x2");
    check_many(vec![holds(1, BONN), holds(5, BREMEN), ends(6, None, Some(3))], "Bonn ~1-3 x2, Bremen ~5- x1");
    check_many(vec![holds(1, BONN), holds(2, BREMEN), never(3, Some(BONN))], "!Bonn ~1- x1, Bremen ~2- x1");
    check_many(vec![holds(1, BONN), holds(2, BREMEN), no(3, KOLN, None)], "Bonn ~1- x1, !Bremen ~2- x1, Köln ~2- x1");
}

#[test]
fn a_line_that_was_taken_out_of_a_file_supports_nothing_and_is_history() {
    let withdrawn = |told: Told, at| Told { withdrawn_at: Some(day(at)), ..told };
    check(vec![holds(1, BONN), withdrawn(holds(3, BREMEN), 9)], "Bonn ~1- x1, !Bremen ~3- x1");
    check(vec![holds(1, BONN), withdrawn(holds(3, BONN), 9)], "Bonn ~1- x1");
    check(vec![holds(1, BONN), withdrawn(never(3, None), 9), withdrawn(ends(4, None, None), 9)], "Bonn ~1- x1");
}

/// What may be said, by chance.
fn anything() -> impl Strategy<Value = Told> {
    let object = 0..4_u32;
    let moment = 0..40_i64;
    let said = (object.clone(), prop::option::of(moment.clone()), prop::option::of(1..20_i64), any::<bool>());
    let what = prop_oneof![
        6 => said.prop_map(|(object, from, long, corrects)| What::Holds {
            object,
            from: from.map(day),
            until: long.filter(|long| long % 3 == 0).map(|long| day(from.unwrap_or(20) + long)),
            corrects: corrects && from.is_none_or(|from| from % 2 == 0),
        }),
        2 => (prop::option::of(object.clone()), prop::option::of(moment.clone()))
            .prop_map(|(object, at)| What::Ends { object, at: at.map(day) }),
        1 => (prop::option::of(object), prop::option::of(moment.clone()))
            .prop_map(|(object, from)| What::NeverHeld { object, from: from.map(day) }),
    ];
    (moment.clone(), moment, prop::option::weighted(0.1, 40..50_i64), what).prop_map(|(said, recorded, gone, what)| {
        Told { recorded_at: day(recorded.max(said)), withdrawn_at: gone.map(day), ..told(said, what) }
    })
}

fn tales() -> impl Strategy<Value = Vec<Told>> {
    prop::collection::vec(anything(), 0..24).prop_map(story)
}

fn known_at(told: &[Told], moment: DateTime<Utc>, single: bool) -> Vec<Held> {
    let known = told
        .iter()
        .filter(|told| told.recorded_at <= moment)
        .map(|told| Told { withdrawn_at: told.withdrawn_at.filter(|at| *at <= moment), ..told.clone() });
    fold(&known.collect::<Vec<_>>(), single)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_two_values_of_a_single_valued_predicate_hold_at_a_time(told in tales()) {
        let held: Vec<Held> = fold(&told, true).into_iter().filter(|held| held.retracted_at.is_none()).collect();
        for pair in held.windows(2) {
            prop_assert!(pair[0].to.is_some_and(|to| to <= pair[1].from), "{}", shown(&held));
        }
    }

    #[test]
    fn of_each_of_many_values_no_two_facts_hold_at_a_time(told in tales()) {
        let held = fold(&told, false);
        for object in 0..4 {
            let own: Vec<_> = held.iter().filter(|held| held.object == object && held.retracted_at.is_none()).collect();
            for pair in own.windows(2) {
                prop_assert!(pair[0].to.is_some_and(|to| to <= pair[1].from), "{}", shown(&held));
            }
        }
    }

    #[test]
    fn every_fact_has_evidence_lasts_and_is_known_before_it_is_taken_back(told in tales(), single: bool) {
        let held = fold(&told, single);
        for fact in &held {
            prop_assert!(!fact.claims.is_empty());
            prop_assert!(fact.claims.is_sorted() && fact.claims.windows(2).all(|pair| pair[0] != pair[1]));
            prop_assert!(fact.to.is_none_or(|to| fact.from < to), "{}", shown(&held));
            prop_assert!(fact.retracted_at.is_none_or(|at| fact.recorded_at <= at));
        }
        let mut keys: Vec<_> = held.iter().map(|fact| (fact.object, fact.from)).collect();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(keys.len(), held.len());
    }

    #[test]
    fn a_claim_that_holds_supports_something_that_holds_then_or_was_taken_back(told in tales(), single: bool) {
        let held = fold(&told, single);
        for told in &told {
            if let What::Holds { object, from, until, .. } = told.what
                && from.zip(until).is_none_or(|(from, until)| from < until)
                && told.withdrawn_at.is_none()
            {
                let supported = held.iter().any(|fact| {
                    fact.claims.contains(&told.claim) || (fact.object == object && fact.retracted_at.is_none())
                });
                prop_assert!(supported, "{told:?}: {}", shown(&held));
            }
        }
    }

    #[test]
    fn what_is_said_later_never_changes_what_was_known(told in tales(), later in tales(), moment in 0..50_i64, single: bool) {
        let then = day(moment);
        let before = known_at(&told, then, single);
        let later = later.into_iter().map(|told| Told { recorded_at: told.recorded_at.max(then + TimeDelta::days(1)), ..told });
        let mut all: Vec<Told> = told.iter().cloned().chain(later).collect();
        all.sort_by_key(|told| told.said_at);
        // The order among what was told does not change when something comes between.
        let after = known_at(&all, then, single);
        let essence = |held: &[Held]| held.iter().map(|held| (held.object, held.from, held.to, held.retracted_at, held.claims.len())).collect::<Vec<_>>();
        prop_assert_eq!(essence(&before), essence(&after));
    }

    #[test]
    fn what_came_out_comes_out_again_when_it_is_told_anew(told in tales(), single: bool) {
        let what_held = |held: Vec<Held>| {
            let held = held.into_iter().filter(|held| held.retracted_at.is_none());
            held.map(|held| (held.from, held.object, held.from_is_said, held.to)).collect::<Vec<_>>()
        };
        let held = what_held(fold(&told, single));
        // As an export is imported: a start that was said is told later, since when something is known is when it was said.
        let anew = held.iter().map(|&(from, object, said, until)| Told {
            said_at: if said { day(100) } else { from },
            ..self::told(100, What::Holds { object, from: said.then_some(from), until, corrects: false })
        });

        let again = what_held(fold(&story(anew.collect()), single));

        prop_assert_eq!(again, held);
    }

    #[test]
    fn other_values_of_many_are_never_touched(told in tales(), single_object in 0..4_u32) {
        let of = |what: What| match what {
            What::Holds { object, corrects: false, .. } => Some(object),
            What::Ends { object, .. } | What::NeverHeld { object, .. } => object,
            What::Holds { .. } => None,
        };
        let plain: Vec<Told> = told.into_iter().filter(|told| of(told.what).is_some()).collect();
        let own: Vec<Told> = plain.iter().filter(|told| of(told.what) == Some(single_object)).cloned().collect();
        let held: Vec<Held> = fold(&plain, false).into_iter().filter(|held| held.object == single_object).collect();
        prop_assert_eq!(held, fold(&own, false));
    }
}

#[test]
fn what_ends_everything_over_and_over_costs_no_more_for_every_value() {
    const MANY: u32 = 3_000;
    let values = (0..MANY).map(|object| between(object.into(), object, 0, 100_000));
    // Each ends all of them a day sooner than the one before.
    let sweeping = (0..MANY).map(|n| ends(i64::from(MANY + n), None, Some(i64::from(90_000 - n))));

    let held = fold(&story(values.chain(sweeping).collect()), false);

    assert_eq!(held.len(), MANY as usize);
    let last = day(i64::from(90_000 - (MANY - 1)));
    for held in held {
        assert_eq!((held.to, held.claims.len()), (Some(last), 1 + MOST_ABOUT_ALL));
    }
}

#[test]
fn what_is_no_longer_said_and_what_was_taken_back_is_not_counted_among_the_ends_of_everything() {
    let sweeping = |said: i64| ends(said, None, Some(said));
    let withdrawn = |said| Told { withdrawn_at: Some(day(said)), ..sweeping(said) };
    let many = || 100_i64..100 + MOST_ABOUT_ALL as i64;

    check_many([vec![since(1, BONN, 0), sweeping(9)], many().map(withdrawn).collect()].concat(), "Bonn 0-9 x2");
    check_many([vec![since(1, BONN, 0), never(9, None)], many().map(sweeping).collect()].concat(), "!Bonn 0- x1");
}

#[test]
fn what_ends_as_it_begins_never_held() {
    check(vec![between(9, BONN, 5, 5)], "");
    check(vec![between(9, BONN, 5, 6)], "Bonn 5-6 x1");
}

#[test]
fn an_end_told_with_the_same_value_again_ends_it() {
    check(vec![since(1, BONN, 0), between(2, BONN, 1, 50)], "Bonn 0-50 x2");
}

#[test]
fn an_end_before_a_start_that_was_said_is_that_of_an_earlier_time() {
    check(vec![since(5, BONN, 3), ends(6, Some(BONN), Some(1))], "Bonn ~0-1 x1, Bonn 3- x1");
    check(vec![holds(5, BONN), ends(6, Some(BONN), Some(1))], "Bonn ~0-1 x2");
}

#[test]
fn an_end_of_whatever_held_outlives_the_correction_of_what_it_ended() {
    check(
        vec![since(50, KOLN, -10), since(51, BONN, 0), ends(52, None, Some(40)), no(53, BONN, Some(10))],
        "Köln -10-10 x2, Bonn 10-40 x3",
    );
}
