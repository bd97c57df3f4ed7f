//! Spending the token budget. Pure: prices in, choices out.

use skymem_core::{Priority, Tokens};

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
    /// What may be spent here: at all unless it is ranked, else before everybody else has bought.
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
/// 3. the account of earlier turns, within its share: a summary instead of the turns it stands for;
/// 4. recalls by their rank, every layer's first before any layer's second, each layer within its share: what was found
///    for this very question is worth more than old turns;
/// 5. the window from its newest exchange back: the oldest go first;
/// 6. with what is left, recalls that were beyond their layer's share.
///
/// Scores of two layers are never compared; ranks are.
#[must_use]
pub(crate) fn pack(market: &Market) -> Basket {
    let mut shopping = Shopping {
        market,
        spent: market.fixed,
        by_stall: vec![Tokens(0); market.stalls.len()],
        bought: market.stalls.iter().map(|stall| vec![false; stall.prices.len()]).collect(),
    };
    shopping.buy_recalls(Priority::Always, true);
    shopping.buy_recalls(Priority::Account, true);
    shopping.buy_recalls(Priority::Ranked, true);
    let mut window_from = market.window.len();
    for (place, price) in market.window.iter().enumerate().rev() {
        if !shopping.pay(*price) {
            break;
        }
        window_from = place;
    }
    shopping.buy_recalls(Priority::Ranked, false);
    let places =
        |bought: &Vec<bool>| bought.iter().enumerate().filter(|(_, bought)| **bought).map(|(place, _)| place).collect();
    Basket { recalls: shopping.bought.iter().map(places).collect(), window_from, spent: shopping.spent }
}

struct Shopping<'a> {
    market: &'a Market,
    spent: Tokens,
    by_stall: Vec<Tokens>,
    bought: Vec<Vec<bool>>,
}

impl Shopping<'_> {
    fn buy_recalls(&mut self, kind: Priority, within_shares: bool) {
        let longest = self.market.stalls.iter().map(|stall| stall.prices.len()).max().unwrap_or(0);
        for rank in 0..longest {
            for stall in 0..self.market.stalls.len() {
                self.buy_recall(stall, rank, kind, within_shares);
            }
        }
    }

    /// Buys one recall if it is there, not bought yet, and affordable.
    fn buy_recall(&mut self, place: usize, rank: usize, kind: Priority, within_shares: bool) {
        let Some(stall) = self.market.stalls.get(place).filter(|stall| stall.kind == kind) else { return };
        let Some(price) = stall.prices.get(rank) else { return };
        if self.bought.get(place).and_then(|bought| bought.get(rank)) != Some(&false) {
            return;
        }
        let frame = match kind {
            _ if self.any_bought(kind) => Tokens(0),
            Priority::Always => self.market.around_always,
            Priority::Account => self.market.around_account,
            Priority::Ranked => self.market.around_ranked,
        };
        let cost = *price + frame;
        let so_far = self.by_stall.get(place).copied().unwrap_or_default();
        if (within_shares && so_far + cost > stall.share) || !self.pay(cost) {
            return;
        }
        if let Some(spent) = self.by_stall.get_mut(place) {
            *spent += cost;
        }
        if let Some(bought) = self.bought.get_mut(place).and_then(|bought| bought.get_mut(rank)) {
            *bought = true;
        }
    }

    fn any_bought(&self, kind: Priority) -> bool {
        self.market.stalls.iter().zip(&self.bought).any(|(stall, bought)| stall.kind == kind && bought.contains(&true))
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
        Market { budget: Tokens(budget), fixed: Tokens(10), window: tokens(window), stalls, ..Market::default() }
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

    fn any_market() -> impl Strategy<Value = Market> {
        let price = || (0_usize..200).prop_map(Tokens);
        let prices = move || prop::collection::vec(price(), 0..8);
        let kind = prop::sample::select(vec![Priority::Always, Priority::Account, Priority::Ranked]);
        let stall = (kind, (0_usize..600).prop_map(Tokens), prices()).prop_map(|(kind, share, prices)| Stall {
            kind,
            share,
            prices,
        });
        let stalls = prop::collection::vec(stall, 0..5);
        ((0_usize..1_000).prop_map(Tokens), price(), price(), price(), price(), prices(), stalls).prop_map(
            |(budget, fixed, around_always, around_account, around_ranked, window, stalls)| Market {
                budget,
                fixed,
                around_always,
                around_account,
                around_ranked,
                window,
                stalls,
            },
        )
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
        fn the_same_market_gives_the_same_basket(market in any_market()) {
            prop_assert_eq!(pack(&market), pack(&market));
        }

        #[test]
        fn an_ample_budget_buys_everything(market in any_market()) {
            let mut market = Market { budget: Tokens(1_000_000), ..market };
            market.stalls.iter_mut().for_each(|stall| stall.share = market.budget);

            let basket = pack(&market);

            prop_assert_eq!(basket.window_from, 0);
            for (stall, bought) in market.stalls.iter().zip(&basket.recalls) {
                prop_assert_eq!(bought.len(), stall.prices.len());
            }
        }
    }
}
