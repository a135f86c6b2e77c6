//! The promises of the circuit breaker.

mod failure;

macro_rules! tests {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                failure::$name();
            }
        )*
    };
}
failure::promises!(tests);
