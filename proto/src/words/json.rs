//! Converts messages of the wire to JSON: the same names and units, enumerations as lower-case words without their prefix, `null` for a
//! number that is not known. `build.rs` generates the conversion from the `.proto` files, so a field that is added there appears here.
//!
//! Programs rely on two shapes, so both stay the same: that of the wire ([`on_the_wire`]), which the server's `/api` uses and [`Serialize`]
//! writes, and that of the agent's answers, which is derived from it. The order of fields is that of the `.proto` files.

use std::{borrow::Cow, collections::HashMap};

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap as _, SerializeSeq as _},
};

use crate::{WireEnum, measured, sums, v1};

/// A JSON value that keeps the order of its fields.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// A value that is not known.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(u64),
    /// A whole number that may be negative.
    Signed(i32),
    /// A float; NaN and infinity are written as null, because JSON has no word for them.
    Float(f64),
    /// A text, or the word of an enumeration.
    Text(String),
    /// The number of an enumeration value that this version does not know.
    Unnamed(i32),
    /// A list of values.
    List(Vec<Self>),
    /// Named values.
    Object(Fields),
}

/// The fields of an object, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields(pub Vec<(Cow<'static, str>, Json)>);

/// A function that makes the JSON of a message from its fields, which are converted already.
pub type MessageShaper = fn(Message<'_>, Fields) -> Json;

/// A type that a field of a message may have.
pub trait ToJson {
    /// This value as JSON; `shape` converts each message in it.
    fn json(&self, shape: MessageShaper) -> Json;
}

include!(concat!(env!("OUT_DIR"), "/json.rs"));

fn enum_json<E: WireEnum>(number: i32) -> Json {
    E::try_from(number).map_or(Json::Unnamed(number), |known| Json::Text(known.word()))
}

/// The fields as on the wire, with `null` for a 0 that means "not known".
pub fn on_the_wire(message: Message<'_>, mut fields: Fields) -> Json {
    let not_known = match message {
        Message::StatsTotals(totals) => sums::unknown_fields(totals),
        Message::Calibration(held) if held.attempts == 0 => vec!["error_log2_mean"],
        Message::Coverage(of) if of.attempts == 0 => vec!["first_ended_unix_ms", "last_ended_unix_ms"],
        Message::JobsPoint(point) if measured::point_wall_ms(point).is_none() => vec!["wall_p50_ms"],
        _ => Vec::new(),
    };
    not_known.into_iter().for_each(|name| fields.set(name, Json::Null));
    Json::Object(fields)
}

impl Fields {
    /// Replaces the value of a field; does nothing if there is no such field.
    pub fn set(&mut self, name: &str, value: Json) {
        if let Some(field) = self.0.iter_mut().find(|field| field.0 == name) {
            field.1 = value;
        }
    }

    /// Inserts fields before the field `name`, or at the end if there is no such field. With `replace` the field is removed.
    fn put_before(&mut self, name: &str, replace: bool, fields: Vec<(Cow<'static, str>, Json)>) {
        let place = self.0.iter().position(|field| field.0 == name).unwrap_or(self.0.len());
        let end = self.0.len().min(place + usize::from(replace));
        self.0.splice(place..end, fields);
    }

    /// Inserts a field before the field `next`.
    pub fn add_before(&mut self, next: &str, name: &'static str, value: Json) {
        self.put_before(next, false, vec![(name.into(), value)]);
    }

    /// Replaces the field `name`, an object, by the object's fields, with `prefix` before their names.
    pub fn flatten_field(&mut self, name: &str, prefix: &str) {
        if let Some((_, Json::Object(inner))) = self.0.iter().find(|field| field.0 == name).cloned() {
            let prefixed = |(name, value)| (Cow::Owned(format!("{prefix}{name}")), value);
            self.put_before(name, true, inner.0.into_iter().map(prefixed).collect());
        }
    }

    /// Removes the fields with these names.
    pub fn remove(&mut self, names: &[&str]) {
        self.0.retain(|field| !names.contains(&field.0.as_ref()));
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(yes) => to.serialize_bool(*yes),
            Self::Whole(number) => to.serialize_u64(*number),
            Self::Signed(number) | Self::Unnamed(number) => to.serialize_i32(*number),
            Self::Float(number) => to.serialize_f64(*number),
            Self::Text(text) => to.serialize_str(text),
            Self::List(list) => {
                let mut out = to.serialize_seq(Some(list.len()))?;
                list.iter().try_for_each(|one| out.serialize_element(one))?;
                out.end()
            }
            Self::Object(fields) => {
                let mut out = to.serialize_map(Some(fields.0.len()))?;
                fields.0.iter().try_for_each(|(name, value)| out.serialize_entry(name, value))?;
                out.end()
            }
        }
    }
}

/// Implements [`ToJson`] for types that become one JSON value.
macro_rules! leaves {
    ($($of:ty: $value:ident => $json:expr,)+) => {
        $(impl ToJson for $of {
            fn json(&self, _shape: MessageShaper) -> Json {
                let $value = self;
                $json
            }
        })+
    };
}

leaves! {
    bool: yes => Json::Bool(*yes),
    u32: number => Json::Whole((*number).into()),
    u64: number => Json::Whole(*number),
    i32: number => Json::Signed(*number),
    f64: number => Json::Float(*number),
    String: text => Json::Text(text.clone()),
}

impl<T: ToJson> ToJson for Option<T> {
    fn json(&self, shape: MessageShaper) -> Json {
        self.as_ref().map_or(Json::Null, |known| known.json(shape))
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn json(&self, shape: MessageShaper) -> Json {
        Json::List(self.iter().map(|one| one.json(shape)).collect())
    }
}

impl ToJson for HashMap<String, String> {
    fn json(&self, _shape: MessageShaper) -> Json {
        let mut pairs: Vec<_> = self.iter().collect();
        pairs.sort_unstable();
        let pairs = pairs.into_iter().map(|(name, text)| (name.clone().into(), Json::Text(text.clone())));
        Json::Object(Fields(pairs.collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::v1::{
        Cause, CurveKnown, GetAttemptResponse, Key, OomOrigin, Outcome, Source, StatsTotals, Summary,
    };

    #[test]
    fn words_are_short_and_lower_case() {
        assert_eq!([Cause::DiskFull.word(), Cause::Unspecified.word()], ["disk_full", "unspecified"]);
        assert_eq!([Source::CgroupV2.word(), CurveKnown::OneCount.word()], ["cgroup_v2", "one_count"]);
        assert_eq!(OomOrigin::LimitAbove.word(), "limit_above");
        assert_eq!(enum_json::<Cause>(99), Json::Unnamed(99));
    }

    #[test]
    fn unmeasured_sums_are_null_with_their_count() {
        let imported = StatsTotals {
            attempts: 3,
            memory_not_measured: 3,
            cpu_not_measured: 3,
            ..StatsTotals::default()
        };
        let parsed = serde_json::to_value(&imported).unwrap();
        for name in
            ["memory_used_gib_hours", "memory_wasted_gib_hours", "cpu_core_hours", "need_over_ask_mean"]
        {
            assert_eq!(parsed[name], Value::Null, "{name}");
        }
        assert_eq!([&parsed["memory_not_measured"], &parsed["failed"]], [&json!(3), &json!(0)]);
        let measured = StatsTotals { memory_not_measured: 2, memory_asked_gib_hours: 4.0, ..imported };
        let parsed = serde_json::to_value(&measured).unwrap();
        assert_eq!(parsed["memory_asked_gib_hours"], json!(4.0));
        assert_eq!(parsed["memory_wasted_gib_hours"], json!(0.0));
    }

    #[test]
    fn json_uses_wire_names_and_null_for_unknown() {
        let labels = [("b".to_owned(), "<script>".to_owned()), ("a".to_owned(), String::new())];
        let summary = Summary {
            key: Some(Key { r#ref: "main".into(), labels: labels.into(), ..Key::default() }),
            outcome: Outcome::Failed.into(),
            cause: Cause::DiskFull.into(),
            cpu_peak_cores: Some(f64::NAN),
            oom_kill: Some(0),
            ..Summary::default()
        };
        let shown = GetAttemptResponse { summary: Some(summary), ..GetAttemptResponse::default() };
        let parsed = serde_json::to_value(&shown).unwrap();
        let summary = &parsed["summary"];
        assert_eq!([&summary["outcome"], &summary["cause"]], [&json!("failed"), &json!("disk_full")]);
        assert_eq!([&summary["oom_kill"], &summary["starved_ms"]], [&json!(0), &Value::Null]);
        assert_eq!([&summary["cpu_peak_cores"], &parsed["verdict"]], [&Value::Null, &Value::Null]);
        assert_eq!((&summary["key"]["ref"], &parsed["series"]), (&json!("main"), &json!([])));
        assert_eq!(summary["key"]["labels"], json!({"a": "", "b": "<script>"}));
    }
}
