//! A message that a struct is stored in, declared with one row for each field.

use plimsoll_core::domain::{Bytes, Cores, CpuMicros, Micros, Millis};

/// A value that is stored in one field of a message.
pub(super) trait FieldValue: Sized {
    /// The type of the field.
    type Field;

    fn to_field(&self) -> Self::Field;
    fn from_field(field: Self::Field) -> Self;
}

macro_rules! stored_as_it_is {
    ($($Type:ty),+) => {$(
        impl FieldValue for $Type {
            type Field = Self;

            fn to_field(&self) -> Self {
                Clone::clone(self)
            }

            fn from_field(field: Self) -> Self {
                field
            }
        }
    )+};
}

stored_as_it_is!(bool, u32, u64, String);

macro_rules! stored_as_number {
    ($($Unit:ident: $number:ty),+) => {$(
        impl FieldValue for $Unit {
            type Field = $number;

            fn to_field(&self) -> $number {
                self.0
            }

            fn from_field(field: $number) -> Self {
                Self(field)
            }
        }
    )+};
}

stored_as_number!(Bytes: u64, Cores: f64, CpuMicros: u64, Micros: u64, Millis: u64);

impl<T: FieldValue> FieldValue for Option<T> {
    type Field = Option<T::Field>;

    fn to_field(&self) -> Self::Field {
        self.as_ref().map(T::to_field)
    }

    fn from_field(field: Self::Field) -> Self {
        field.map(T::from_field)
    }
}

impl<T: FieldValue> FieldValue for Vec<T> {
    type Field = Vec<T::Field>;

    fn to_field(&self) -> Self::Field {
        self.iter().map(T::to_field).collect()
    }

    fn from_field(field: Self::Field) -> Self {
        field.into_iter().map(T::from_field).collect()
    }
}

/// Declares the message of a struct: for each field its number, its kind on the disk, its name and its type.
macro_rules! packed {
    ($Packed:ident of $Value:ident { $($tag:tt $kind:ident $(($label:ident))? $field:ident: $Type:ty,)+ }) => {
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $Packed {
            $(#[prost($kind $(, $label)?, tag = $tag)] $field: <$Type as FieldValue>::Field,)+
        }

        impl FieldValue for $Value {
            type Field = $Packed;

            fn to_field(&self) -> $Packed {
                $Packed { $($field: self.$field.to_field(),)+ }
            }

            fn from_field(field: $Packed) -> Self {
                Self { $($field: FieldValue::from_field(field.$field),)+ }
            }
        }
    };
}
pub(super) use packed;
