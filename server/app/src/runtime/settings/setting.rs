//! Declares settings. Each is declared once, with name, value, bounds and help text. The command
//! line, the variables, the file, `--print-config`, the settings page and the reference are derived
//! from the declaration.

use clap::Arg;

use super::Config;

/// A setting, as declared.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Name of the setting in the file: `grpc_listen` is the option `--grpc-listen` and the variable `PLIMSOLL_GRPC_LISTEN`.
    pub(crate) name: &'static str,
    /// Placeholder of the setting's value in `--help`.
    pub(crate) value: &'static str,
    /// Help text of one or two sentences, with a leading space.
    pub(super) help: &'static str,
    /// What happens if the setting has no value; `None`: shown as "none".
    pub(crate) unset: Option<&'static str>,
    /// Least and largest number, for numeric settings.
    pub(crate) bounds: Option<fn() -> [String; 2]>,
    /// Parses a text and sets the value.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as a text that `set` accepts; empty if it is not set.
    pub(super) get: fn(&Config) -> String,
}

/// Settings that belong together.
#[derive(Debug)]
pub(crate) struct Group {
    /// Heading in `--help` and in the reference.
    pub(crate) title: &'static str,
    /// The settings of the group, in the order in which they are shown.
    pub(crate) settings: &'static [Setting],
}

/// Declares settings: `/// help`, then `"name" => field, "PLACEHOLDER";`. By default the type of the field in [`Config`] determines how a
/// text is parsed; `read f` names a parser, `number A..=B` a bounded number, `set f, get g` handles several fields. `unset "text"`
/// describes what happens without a value.
macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        $name:literal => $($field:ident).+, $value:literal
        $(, read $parse:expr)? $(, number $bounds:expr)? $(, set $set:expr, get $get:expr)? $(, unset $unset:literal)?;
    )+) => {
        &[$(crate::runtime::settings::setting::Setting {
            name: $name,
            value: $value,
            help: concat!($($help),+),
            unset: settings!(@option $($unset)?),
            bounds: settings!(@option $(|| [$bounds.start().to_string(), $bounds.end().to_string()])?),
            set: settings!(@set $($field).+ $(, read $parse)? $(, number $bounds)? $(, set $set)?),
            get: settings!(@get $($field).+ $(, get $get)?),
        }),+]
    };
    (@option) => { None };
    (@option $some:expr) => { Some($some) };
    (@set $($field:ident).+) => {
        |config, text| {
            config.$($field).+ = crate::runtime::settings::value::Value::parse(text)?;
            Ok(())
        }
    };
    (@set $($field:ident).+, read $parse:expr) => {
        |config, text| {
            config.$($field).+ = $parse(text)?.into();
            Ok(())
        }
    };
    (@set $($field:ident).+, set $set:expr) => { $set };
    (@get $($field:ident).+) => { |config| crate::runtime::settings::value::Written::written(&config.$($field).+) };
    (@get $($field:ident).+, get $get:expr) => { $get };
    (@set $($field:ident).+, number $bounds:expr) => {
        |config, text| {
            config.$($field).+ = crate::runtime::settings::parse::number(text, &$bounds)?.into();
            Ok(())
        }
    };
}
pub(super) use settings;

impl Setting {
    /// Help text of the setting.
    pub(crate) fn help(&self) -> &'static str {
        self.help.trim_start()
    }

    /// Default of the setting as written in a file, or what happens if it is not set.
    pub(crate) fn default(&self, defaults: &Config) -> String {
        match (self.unset, (self.get)(defaults)) {
            (Some(unset), _) => unset.to_owned(),
            (None, none) if none.is_empty() => "none".to_owned(),
            (None, value) => value,
        }
    }

    /// Text of the setting in `--help`: help text, bounds and default.
    pub(crate) fn meaning(&self, defaults: &Config) -> String {
        let bounds = self.bounds.map(|bounds| format!(" [{}]", bounds().join(" to "))).unwrap_or_default();
        format!("{}{bounds} [default: {}]", self.help(), self.default(defaults))
    }

    /// The setting as an option of the command line.
    pub(super) fn option(&self, defaults: &Config) -> Arg {
        let arg = Arg::new(self.name).long(self.name.replace('_', "-")).value_name(self.value);
        arg.help(self.meaning(defaults))
    }

    /// Name of the setting's environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("PLIMSOLL_{}", self.name.to_ascii_uppercase())
    }
}
