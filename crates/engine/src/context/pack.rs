//! Spending the token budget. Pure: prices in, choices out.

use std::ops::Range;

use skymem_core::{Priority, Tokens};

use super::window::MOST_EXCHANGES;

/// What there is to buy, and with what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Market {
    /// What everything together may cost.
    pub(crate) budget: Tokens,
    /// What is bought whatever it costs: the system prompt and the question.
    pub(crate) fixed: Tokens,
    /// What the frame around what is always loaded costs, once there is something.
    pub(crate) around_always: Tokens,
    /// What the frame around the account of earlier turns costs, once there is one.
    pub(crate) around_account: Tokens,
    /// What the frame around ranked recalls costs, once there is one.
    pub(crate) around_ranked: Tokens,
    /// How many ranked recalls are bought at most, of all layers together.
    pub(crate) most_ranked: usize,
    /// The exchanges of the window, oldest first.
    pub(crate) window: Vec<Tokens>,
    /// What each layer offers, in reading order.
    pub(crate) stalls: Vec<Stall>,
}

/// What one layer offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stall {
    /// What it is in the pack.
    pub(crate) kind: Priority,
    /// What its recalls may cost together: at all unless it is ranked, else before everybody else has bought. Frames
    /// are nobody's.
    pub(crate) share: Tokens,
    /// The price of each recall, best first.
    pub(crate) prices: Vec<Tokens>,
}

/// What was bought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Basket {
    /// Of each stall the places of the recalls that were bought, best first.
    pub(crate) recalls: Vec<Vec<usize>>,
    /// The place of the oldest exchange of the window that was bought; all newer ones were bought too.
    pub(crate) window_from: usize,
    /// What it cost, with what is fixed.
    pub(crate) spent: Tokens,
}

/// Buys within the budget, in this order:
///
/// 1. what is fixed;
/// 2. what is always loaded, within its share. Neither what was found nor the window has a say in that: the same files
///    are the same text from one question to the next, as prompt caches need it;
/// 3. every layer's best recall, within its share: what was found for this very question is worth more than anything
///    said before;
/// 4. the account of earlier turns, within its share: a summary instead of the turns it stands for;
/// 5. more recalls by their rank, every layer's second before any layer's third, each layer within its share;
/// 6. the window from its newest exchange back: the oldest go first, and never more than [`MOST_EXCHANGES`] are bought;
/// 7. with what is left, recalls that were beyond their layer's share.
///
/// Of ranked recalls never more than [`Market::most_ranked`] are bought, however much is left: a few that are well
/// chosen serve better than all there is. Scores of two layers are never compared; ranks are.
#[must_use]
pub(crate) fn pack(market: &Market) -> Basket {
    let mut shopping = Shopping {
        market,
        spent: market.fixed,
        by_stall: vec![Tokens(0); market.stalls.len()],
        bought: market.stalls.iter().map(|stall| vec![false; stall.prices.len()]).collect(),
    };
    let ranks = 0..market.stalls.iter().map(|stall| stall.prices.len()).max().unwrap_or(0);
    shopping.buy_recalls(Priority::Always, ranks.clone(), true);
    shopping.buy_recalls(Priority::Ranked, 0..1, true);
    shopping.buy_recalls(Priority::Account, ranks.clone(), true);
    shopping.buy_recalls(Priority::Ranked, ranks.clone(), true);
    let mut window_from = market.window.len();
    for (place, price) in market.window.iter().enumerate().rev().take(MOST_EXCHANGES) {
        if !shopping.pay(*price) {
            break;
        }
        window_from = place;
    }
    shopping.buy_recalls(Priority::Ranked, ranks, false);
    let places =
        |bought: &Vec<bool>| bought.iter().enumerate().filter(|(_, bought)| **bought).map(|(place, _)| place).collect();
    Basket { recalls: shopping.bought.iter().map(places).collect(), window_from, spent: shopping.spent }
}

struct Shopping<'a> {
    market: &'a Market,
    spent: Tokens,
    /// What each stall's recalls cost so far, without frames.
    by_stall: Vec<Tokens>,
    bought: Vec<Vec<bool>>,
}

impl Shopping<'_> {
    fn buy_recalls(&mut self, kind: Priority, ranks: Range<usize>, within_shares: bool) {
        for rank in ranks {
            for stall in 0..self.market.stalls.len() {
                self.buy_recall(stall, rank, kind, within_shares);
            }
        }
    }

    /// Buys one recall if it is there, not bought yet, and affordable.
    fn buy_recall(&mut self, place: usize, rank: usize, kind: Priority, within_shares: bool) {
        let Some(stall) = self.market.stalls.get(place).filter(|stall| stall.kind == kind) else { return };
        let Some(price) = stall.prices.get(rank).copied() else { return };
        if self.bought.get(place).and_then(|bought| bought.get(rank)) != Some(&false) {
            return;
        }
        let so_far = self.by_stall.get(place).copied().unwrap_or_default();
        let bought = self.count(kind);
        if (within_shares && so_far + price > stall.share)
            || (kind == Priority::Ranked && bought >= self.market.most_ranked)
        {
            return;
        }
        let frame = match kind {
            _ if bought > 0 => Tokens(0),
            Priority::Always => self.market.around_always,
            Priority::Account => self.market.around_account,
            Priority::Ranked => self.market.around_ranked,
        };
        if !self.pay(price + frame) {
            return;
        }
        if let Some(spent) = self.by_stall.get_mut(place) {
            *spent += price;
        }
        if let Some(bought) = self.bought.get_mut(place).and_then(|bought| bought.get_mut(rank)) {
            *bought = true;
        }
    }

    /// How many recalls of that kind were bought.
    fn count(&self, kind: Priority) -> usize {
        let stalls = self.market.stalls.iter().zip(&self.bought).filter(|(stall, _)| stall.kind == kind);
        stalls.map(|(_, bought)| bought.iter().filter(|bought| **bought).count()).sum()
    }

    fn pay(&mut self, price: Tokens) -> bool {
        let affordable = self.spent + price <= self.market.budget;
        if affordable {
            self.spent += price;
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(prices: &[usize]) -> Vec<Tokens> {
        prices.iter().copied().map(Tokens).collect()
    }

    fn stall(kind: Priority, share: usize, prices: &[usize]) -> Stall {
        Stall { kind, share: Tokens(share), prices: tokens(prices) }
    }

    fn market(budget: usize, window: &[usize], stalls: Vec<Stall>) -> Market {
        Market {
            budget: Tokens(budget),
            fixed: Tokens(10),
            most_ranked: 20,
            window: tokens(window),
            stalls,
            ..Market::default()
        }
    }

    #[test]
    fn everything_is_bought_when_it_fits() {
        let basket = pack(&market(
            100,
            &[20, 20],
            vec![stall(Priority::Always, 100, &[10]), stall(Priority::Ranked, 100, &[10, 10])],
        ));

        assert_eq!(basket, Basket { recalls: vec![vec![0], vec![0, 1]], window_from: 0, spent: Tokens(80) });
    }

    #[test]
    fn the_oldest_turns_go_first() {
        let basket = pack(&market(60, &[5, 20, 20], vec![stall(Priority::Ranked, 60, &[20])]));

        assert_eq!(basket.recalls, [[0]]);
        assert_eq!(basket.window_from, 2, "a small old exchange does not stay when a newer one had to go");
    }

    #[test]
    fn a_layer_keeps_to_its_share_until_everybody_has_bought() {
        let offers = || vec![stall(Priority::Ranked, 20, &[10, 10, 10, 10])];
        let busy = pack(&market(60, &[15, 15], offers()));
        let idle = pack(&market(60, &[], offers()));

        assert_eq!((busy.recalls, busy.window_from), (vec![vec![0, 1]], 0));
        assert_eq!(idle.recalls, [[0, 1, 2, 3]]);
    }

    #[test]
    fn what_is_always_loaded_does_not_depend_on_what_else_there_is() {
        let files = || stall(Priority::Always, 40, &[20, 30, 10]);
        let quiet = pack(&market(100, &[], vec![files()]));
        let busy = pack(&market(100, &[20, 20], vec![files(), stall(Priority::Ranked, 100, &[10])]));

        assert_eq!((&quiet.recalls[0], &busy.recalls[0]), (&vec![0, 2], &vec![0, 2]));
    }

    #[test]
    fn every_layers_first_is_bought_before_any_layers_second() {
        let basket = pack(&market(
            30,
            &[],
            vec![stall(Priority::Ranked, 100, &[10, 10]), stall(Priority::Ranked, 100, &[10, 10])],
        ));

        assert_eq!(basket.recalls, [[0], [0]]);
    }

    #[test]
    fn what_does_not_fit_makes_room_for_what_does() {
        let basket = pack(&market(30, &[], vec![stall(Priority::Ranked, 100, &[50, 10])]));

        assert_eq!(basket.recalls, [[1]]);
    }

    #[test]
    fn what_is_fixed_is_kept_though_it_costs_more_than_the_budget() {
        let basket = pack(&market(5, &[1], vec![stall(Priority::Always, 5, &[1])]));

        assert_eq!(basket, Basket { recalls: vec![vec![]], window_from: 1, spent: Tokens(10) });
    }

    #[test]
    fn a_frame_is_nobodys_and_keeps_no_layer_from_its_share() {
        let frame = Tokens(70);
        let tight = Market { around_ranked: frame, ..market(130, &[30], vec![stall(Priority::Ranked, 30, &[25])]) };

        assert_eq!(pack(&tight).recalls, [[0]], "what was found comes before old turns also when there is little");
    }

    fn any_market() -> impl Strategy<Value = Market> {
        let price = || (1_usize..200).prop_map(Tokens);
        let prices = move || prop::collection::vec(price(), 0..12);
        let kind = prop::sample::select(vec![Priority::Always, Priority::Account, Priority::Ranked, Priority::Ranked]);
        let stall = (kind, (0_usize..600).prop_map(Tokens), prices()).prop_map(|(kind, share, prices)| Stall {
            kind,
            share,
            prices,
        });
        let stalls = prop::collection::vec(stall, 0..6);
        let budget = prop_oneof![(0_usize..1_500).prop_map(Tokens), (0_usize..200).prop_map(Tokens)];
        let frames = (price(), price(), price());
        (budget, price(), frames, 0_usize..25, prices(), stalls).prop_map(
            |(budget, fixed, (around_always, around_account, around_ranked), most_ranked, window, stalls)| Market {
                budget,
                fixed,
                around_always,
                around_account,
                around_ranked,
                most_ranked,
                window,
                stalls,
            },
        )
    }

    /// The market without the stalls of some kinds, whose places stay.
    fn without(market: &Market, kinds: &[Priority]) -> Market {
        let mut market = market.clone();
        for stall in market.stalls.iter_mut().filter(|stall| kinds.contains(&stall.kind)) {
            stall.prices.clear();
        }
        market
    }

    fn without_window(market: &Market) -> Market {
        Market { window: Vec::new(), ..market.clone() }
    }

    /// The market in which every ranked layer has this share.
    fn with_shares(market: &Market, share: Tokens) -> Market {
        let mut market = market.clone();
        let ranked = market.stalls.iter_mut().filter(|stall| stall.kind == Priority::Ranked);
        ranked.for_each(|stall| stall.share = share);
        market
    }

    const ALL: Tokens = Tokens(1_000_000);

    /// The places of what was bought of one kind, by stall.
    fn bought(market: &Market, kind: Priority) -> Vec<Vec<usize>> {
        let basket = pack(market);
        let stalls = market.stalls.iter().zip(basket.recalls);
        stalls.map(|(stall, bought)| if stall.kind == kind { bought } else { Vec::new() }).collect()
    }

    proptest! {
        #[test]
        fn it_is_never_over_budget_and_its_sum_is_right(market in any_market()) {
            let basket = pack(&market);

            let mut sum = market.fixed + market.window[basket.window_from..].iter().copied().sum();
            let mut framed = std::collections::HashMap::from([
                (Priority::Always, (false, market.around_always)),
                (Priority::Account, (false, market.around_account)),
                (Priority::Ranked, (false, market.around_ranked)),
            ]);
            for (stall, bought) in market.stalls.iter().zip(&basket.recalls) {
                sum += bought.iter().map(|place| stall.prices[*place]).sum();
                framed.get_mut(&stall.kind).unwrap().0 |= !bought.is_empty();
            }
            sum += framed.into_values().filter(|(bought, _)| *bought).map(|(_, frame)| frame).sum();
            prop_assert_eq!(sum, basket.spent);
            prop_assert!(basket.spent <= market.budget.max(market.fixed));
        }

        #[test]
        fn what_is_always_loaded_is_the_same_whatever_else_there_is(market in any_market()) {
            let alone = without(&without_window(&market), &[Priority::Ranked, Priority::Account]);

            prop_assert_eq!(bought(&market, Priority::Always), bought(&alone, Priority::Always));
        }

        #[test]
        fn the_best_of_what_was_found_is_protected_from_turns_and_their_summary(market in any_market()) {
            let alone = without(&without_window(&market), &[Priority::Account]);
            let best = |market: &Market| -> Vec<bool> {
                let share_holds = |stall: &Stall| stall.prices.first().is_some_and(|price| *price <= stall.share);
                let stalls = market.stalls.iter().zip(bought(market, Priority::Ranked));
                stalls.map(|(stall, bought)| share_holds(stall) && bought.contains(&0)).collect()
            };

            prop_assert_eq!(best(&market), best(&alone));
        }

        #[test]
        fn what_was_found_within_its_share_never_makes_room_for_a_turn(market in any_market()) {
            let market = with_shares(&market, ALL);

            prop_assert_eq!(bought(&market, Priority::Ranked), bought(&without_window(&market), Priority::Ranked));
        }

        #[test]
        fn no_turn_stands_where_a_summary_would_fit(market in any_market()) {
            prop_assert_eq!(bought(&market, Priority::Account), bought(&without_window(&market), Priority::Account));
        }

        #[test]
        fn the_window_is_as_long_as_the_budget_allows_and_its_oldest_turns_go_first(market in any_market()) {
            let market = with_shares(&market, ALL);

            let basket = pack(&market);

            let turns: Tokens = market.window[basket.window_from..].iter().copied().sum();
            let before_turns = pack(&without_window(&market)).spent;
            prop_assert_eq!(basket.spent, before_turns + turns);
            let kept = market.window.len() - basket.window_from;
            if let Some(next) = basket.window_from.checked_sub(1).filter(|_| kept < MOST_EXCHANGES) {
                prop_assert!(before_turns + turns + market.window[next] > market.budget, "there was room for another");
            }
        }

        #[test]
        fn what_is_beyond_a_share_never_costs_a_turn(market in any_market()) {
            let market = with_shares(&market, Tokens(0));

            prop_assert_eq!(pack(&market).window_from, pack(&without(&market, &[Priority::Ranked])).window_from);
        }

        #[test]
        fn at_most_eight_exchanges_stand_word_for_word(market in any_market()) {
            let ample = Market { budget: Tokens(1_000_000), ..market };

            prop_assert_eq!(ample.window.len() - pack(&ample).window_from, ample.window.len().min(8));
        }

        #[test]
        fn a_few_are_chosen_however_much_is_left(market in any_market()) {
            let ample = Market { budget: Tokens(1_000_000), ..market };

            let chosen: usize = bought(&ample, Priority::Ranked).iter().map(Vec::len).sum();

            let stalls = ample.stalls.iter().filter(|stall| stall.kind == Priority::Ranked);
            prop_assert_eq!(chosen, stalls.map(|stall| stall.prices.len()).sum::<usize>().min(ample.most_ranked));
        }

        #[test]
        fn a_layer_that_is_no_ranked_one_never_spends_more_than_its_share(market in any_market()) {
            let basket = pack(&market);

            for (stall, bought) in market.stalls.iter().zip(&basket.recalls) {
                let spent: Tokens = bought.iter().map(|place| stall.prices[*place]).sum();
                prop_assert!(stall.kind == Priority::Ranked || spent <= stall.share);
            }
        }

        #[test]
        fn an_ample_budget_buys_everything_that_is_not_too_much(market in any_market()) {
            let mut market = Market { budget: Tokens(1_000_000), most_ranked: 1_000, ..market };
            market.stalls.iter_mut().for_each(|stall| stall.share = market.budget);

            let basket = pack(&market);

            prop_assert_eq!(basket.window_from, market.window.len().saturating_sub(MOST_EXCHANGES));
            for (stall, bought) in market.stalls.iter().zip(&basket.recalls) {
                prop_assert_eq!(bought.len(), stall.prices.len());
            }
        }
    }
}
