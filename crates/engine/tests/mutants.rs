//! The published mistakes that are about the engine, switched on one at a time: its promises must notice each, and for the right reason.

mod failure;

use std::panic;

use tidegate_core::mutant::Mutant;

const KILLERS: &[(Mutant, &str)] = &[
    (Mutant::BreakerNeverForgets, "five_errors_in_a_week_never_open_it"),
    (Mutant::BreakerManyProbes, "at_most_one_probe_is_in_flight"),
    (Mutant::BreakerLongCooldown, "a_blip_of_a_second_does_not_cost_much_more"),
];

macro_rules! list {
    ($($name:ident,)*) => {
        const PROMISES: &[(&str, fn())] = &[$((stringify!($name), failure::$name),)*];
    };
}
failure::promises!(list);

fn failing() -> Vec<&'static str> {
    PROMISES.iter().filter(|(_, promise)| panic::catch_unwind(promise).is_err()).map(|&(name, _)| name).collect()
}

/// One test, because the switch is one for the whole process.
#[test]
fn the_promises_hold_and_fail_with_each_published_mistake() {
    assert_eq!(failing(), Vec::<&str>::new(), "without any mistake");
    for &(mutant, expected) in KILLERS {
        panic::set_hook(Box::new(|_| {}));
        Mutant::activate(Some(mutant));
        let killers = failing();
        Mutant::activate(None);
        drop(panic::take_hook());

        let (_, number, what) = Mutant::ALL.iter().find(|(known, _, _)| *known == mutant).expect("a known mistake");
        println!("{number:>3}  {what}\n       killed by {}", killers.join(", "));
        assert!(killers.contains(&expected), "{what}: {expected} does not notice, only {killers:?} does");
    }
}
