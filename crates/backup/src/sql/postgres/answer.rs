//! Rows of the server's answers as tuples.

use std::error::Error;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, accepts};

/// A row, as a tuple of its columns.
pub trait Answer: Sized {
    /// Takes a row apart. Fails if it has other columns.
    fn from_row(row: &Row) -> Result<Self, tokio_postgres::Error>;
}

/// A value in a row.
pub trait Column: Sized {
    /// The type of the column in the row.
    type Raw: for<'a> FromSql<'a>;

    /// Converts the column's value.
    fn from_raw(raw: Self::Raw) -> Self;
}

/// A text that may have bytes other than UTF-8: the server keeps names of roles and databases in the encoding of the database in
/// which they were made, and does not convert them when it shows them in another one.
pub struct Text(String);

impl<'a> FromSql<'a> for Text {
    accepts!(NAME, TEXT, VARCHAR);

    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(String::from_utf8_lossy(raw).into_owned()))
    }
}

/// A number that is never below 0, in a type that has a sign.
pub struct Unsigned(u64);

impl<'a> FromSql<'a> for Unsigned {
    accepts!(INT8);

    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(i64::from_sql(kind, raw)?.try_into()?))
    }
}

impl Column for String {
    type Raw = Text;

    fn from_raw(raw: Text) -> Self {
        raw.0
    }
}

impl Column for u64 {
    type Raw = Unsigned;

    fn from_raw(raw: Unsigned) -> Self {
        raw.0
    }
}

impl<T: Column> Column for Option<T> {
    type Raw = Option<T::Raw>;

    fn from_raw(raw: Self::Raw) -> Self {
        raw.map(T::from_raw)
    }
}

impl<T: Column> Column for Vec<T> {
    type Raw = Vec<T::Raw>;

    fn from_raw(raw: Self::Raw) -> Self {
        raw.into_iter().map(T::from_raw).collect()
    }
}

macro_rules! as_they_are {
    ($($kind:ty),+) => {$(
        impl Column for $kind {
            type Raw = Self;

            fn from_raw(raw: Self) -> Self {
                raw
            }
        }
    )+};
}

as_they_are!(bool, i32, i64, u32);

macro_rules! tuples {
    ($($($column:ident $at:literal),+;)+) => {$(
        impl<$($column: Column),+> Answer for ($($column,)+) {
            fn from_row(row: &Row) -> Result<Self, tokio_postgres::Error> {
                Ok(($($column::from_raw(row.try_get($at)?),)+))
            }
        }
    )+};
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_another_encoding_is_read_nevertheless() {
        let text = Text::from_sql(&Type::NAME, b"caf\xe9").unwrap();
        assert_eq!(String::from_raw(text), "caf\u{FFFD}");
        assert!(!Text::accepts(&Type::INT8) && !Unsigned::accepts(&Type::INT4));
    }

    #[test]
    fn a_size_below_zero_is_no_size() {
        let read = |number: i64| Unsigned::from_sql(&Type::INT8, &number.to_be_bytes()).map(u64::from_raw);
        assert_eq!(read(i64::MAX).unwrap(), 9_223_372_036_854_775_807);
        assert!(read(-1).is_err());
    }
}
