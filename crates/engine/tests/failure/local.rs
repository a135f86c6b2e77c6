//! What instances may admit on their own, and what becomes of it.

use tidegate_core::quota::Quota;
use tidegate_engine::failure::debts::Debts;
use tidegate_store::digest::Digest;

/// However many there are, and however small the limit is.
pub(crate) fn shares_never_add_up_to_more_than_the_quota() {
    for limit in 0..150 {
        for instances in 1..12 {
            let share = format!("{limit}/minute").parse::<Quota>().expect("a quota").share(instances);
            let together = share.quota.limit().expect("a limit") * u64::from(share.sharers);

            assert!(limit == 0 || together <= limit, "{instances} instances admit {together} of {limit}");
        }
    }
}

/// A store that refuses to be told, again and again, while more is admitted, forgets nothing of it.
pub(crate) fn what_was_admitted_is_owed_until_it_is_charged() {
    let (debts, counter) = (Debts::default(), Digest([1, 2]));
    let (mut admitted, mut charged) = (0, 0);
    for round in 1..=20 {
        for units in [round, 2, 1] {
            debts.add(counter, units, || ());
            admitted += units;
        }
        for debt in debts.send_batch(10) {
            debts.add(counter, 3, || ()); // while the store is asked
            admitted += 3;
            if round % 5 == 0 {
                charged += debt.units;
                debts.charged(&debt);
            } else {
                debts.refused(&debt);
            }
        }
    }
    charged += debts.send(counter).map_or(0, |debt| debt.units);

    assert_eq!(charged, admitted);
}
