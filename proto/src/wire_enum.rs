//! Enums that are sent.

use crate::v1;

/// Like [`named_enum!`](plimsoll_base::named_enum), for an enum whose variants are values of the wire's enum of the same name. Adds `to_wire` and `of_wire`.
#[macro_export]
macro_rules! wire_enum {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $Enum:ident {
            $($(#[$of_variant:meta])* $Variant:ident => $name:literal,)+
        }
    ) => {
        ::plimsoll_base::named_enum! {
            $(#[$attribute])*
            $visibility enum $Enum {
                $($(#[$of_variant])* $Variant => $name,)+
            }
        }

        impl $Enum {
            /// The value on the wire.
            $visibility const fn to_wire(self) -> $crate::v1::$Enum {
                match self {
                    $(Self::$Variant => $crate::v1::$Enum::$Variant),+
                }
            }

            /// The variant of a value on the wire; `None` if none is set, or only the wire has it.
            $visibility fn of_wire(wire: $crate::v1::$Enum) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.to_wire() == wire)
            }
        }
    };
}

/// An enum of the wire. Its numbers have no gaps, and 0 is "not set".
pub trait WireEnum: TryFrom<i32> + Default + Copy {
    /// The name in the `.proto` file: `CAUSE_DISK_FULL`.
    fn proto_name(self) -> &'static str;

    /// All values that can be set, in the order of their numbers.
    fn all() -> impl Iterator<Item = Self> {
        (1..).map_while(|number| Self::try_from(number).ok())
    }

    /// The name without that of the enum: `DISK_FULL`.
    fn short_name(self) -> &'static str {
        let name = self.proto_name();
        Self::default()
            .proto_name()
            .strip_suffix("UNSPECIFIED")
            .and_then(|prefix| name.strip_prefix(prefix))
            .unwrap_or(name)
    }

    /// The name in JSON: `disk_full`.
    fn word(self) -> String {
        self.short_name().to_ascii_lowercase()
    }

    /// The value with this name, which may be written as `disk_full`, `disk-full` or `DISK_FULL`.
    fn parse(text: &str) -> Option<Self> {
        let name = text.to_ascii_uppercase().replace('-', "_");
        Self::all().find(|known| known.short_name() == name)
    }
}

macro_rules! wire_enums {
    ($($Enum:ident)+) => {
        $(impl WireEnum for v1::$Enum {
            fn proto_name(self) -> &'static str {
                self.as_str_name()
            }
        })+
    };
}

wire_enums! { Action AttemptOrder Cause ChangeKind CurveKnown GroupBy NoProposal OomOrigin Outcome Rung SizeBoundKind Source TicketState }
