//! Structs that are stored as JSON, without the fields that say nothing.

/// Declares a struct that serde reads and writes. A field with `= default` is left out while it has the default of its type.
macro_rules! stored_record {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $Struct:ident {
            $($(#[$of_field:meta])* $of:vis $field:ident: $type:ty $(= $default:ident)?,)+
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $Struct {
            $(
                $(#[$of_field])*
                $(#[serde($default, skip_serializing_if = "crate::domain::stored_record::is_default")])?
                $of $field: $type
            ),+
        }
    };
}

pub(super) use stored_record;

/// Whether a value is the default of its type.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
