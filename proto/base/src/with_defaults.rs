//! Structs with the default of each field beside it.

/// Declares a struct, and `Default` for it. A field without a default has that of its type.
#[macro_export]
macro_rules! with_defaults {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $Struct:ident {
            $($(#[$of_field:meta])* $of:vis $field:ident: $type:ty $(= $default:expr)?,)+
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $Struct {
            $($(#[$of_field])* $of $field: $type),+
        }

        impl Default for $Struct {
            fn default() -> Self {
                Self { $($field: $crate::with_defaults!(@ $type $(, $default)?)),+ }
            }
        }
    };
    (@ $type:ty, $default:expr) => {
        $default
    };
    (@ $type:ty) => {
        <$type as Default>::default()
    };
}
