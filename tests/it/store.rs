//! The stores: every implementation runs the same cases, which are listed in `suite`.
//!
//! *Invariant:* the cases use the traits and a [`Fixture`] only; what is special to one store is tested in its own module. The
//! crate `postgres` runs the same files in a test of its own, which is built without the program.

mod audit;
mod calls;
mod changes;
mod local;
mod log;
mod outputs;
mod prefixes;
mod prompts;
mod records;
mod suite;

pub(crate) use self::suite::*;

mod on_local {
    use super::local::LocalFixture;
    use super::suite;

    suite!(LocalFixture::new());
}
