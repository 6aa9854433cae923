//! Enums with a name for each variant, in one list.

/// Declares an enum without fields, with a name for each variant. Adds `ALL`, which has the variants in the order of their declaration, and
/// `as_str`, which returns the name that output, metrics, files and the wire use.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $Enum:ident {
            $($(#[$of_variant:meta])* $Variant:ident => $name:literal,)+
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $Enum {
            $($(#[$of_variant])* $Variant),+
        }

        impl $Enum {
            /// All variants, in the order of their declaration.
            $visibility const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// The name in output, metrics, files and on the wire.
            $visibility const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name),+
                }
            }
        }
    };
}
