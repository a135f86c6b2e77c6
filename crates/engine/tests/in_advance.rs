//! What may be spent that was taken before anybody asked for it.

mod advance;

macro_rules! tests {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                advance::$name();
            }
        )*
    };
}
advance::promises!(tests);
