//! The memory of the memory store, one test for each function of [`limits`].

mod limits;

macro_rules! tests {
    ($($name:ident,)*) => {
        $(#[test]
        fn $name() {
            limits::$name();
        })*
    };
}
limits::limits!(tests);
