//! Values of statements, each with its type: a statement that names the types of its parameters needs no preparation.

use tokio_postgres::types::{ToSql, Type};

/// The values of a statement, in the order of their numbers.
pub(crate) type Values<'v> = &'v [(&'v (dyn ToSql + Sync), Type)];

/// What PostgreSQL calls the type of a value.
pub(crate) trait Typed: ToSql + Sync {
    fn sql_type() -> Type;
}

macro_rules! typed {
    ($($rust:ty => $sql:ident),+ $(,)?) => {
        $(impl Typed for $rust {
            fn sql_type() -> Type {
                Type::$sql
            }
        })+
    };
}

typed! {
    bool => BOOL,
    i64 => INT8,
    &str => TEXT,
    String => TEXT,
    &[u8] => BYTEA,
    Vec<bool> => BOOL_ARRAY,
    Vec<i64> => INT8_ARRAY,
    Vec<Option<i64>> => INT8_ARRAY,
    Vec<String> => TEXT_ARRAY,
    Vec<Option<String>> => TEXT_ARRAY,
    Vec<&str> => TEXT_ARRAY,
    Vec<Option<&str>> => TEXT_ARRAY,
    Vec<&[u8]> => BYTEA_ARRAY,
}

impl<T: Typed> Typed for Option<T> {
    fn sql_type() -> Type {
        T::sql_type()
    }
}

/// Returns a value with its type.
pub(crate) fn typed<T: Typed>(value: &T) -> (&(dyn ToSql + Sync), Type) {
    (value, T::sql_type())
}

/// Lists values with their types.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$($crate::values::typed(&$value)),*]
    };
}

pub(crate) use values;
