//! Messages of the wire as JSON: their names and units, enumerations as lower-case words without their prefix, `null` for a
//! number that is not known. It reads the compiled `.proto` files, so a field that is added there appears here.

use std::sync::OnceLock;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use plimsoll_proto::DESCRIPTORS;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _,
    Value,
};
use serde_json::{Map, Number, Value as Json};

use super::trouble::Trouble;

/// A message `plimsoll.v1.NAME` as an answer.
pub(super) fn answer(name: &str, message: &impl Message) -> Response {
    match of_message(name, message) {
        Ok(json) => sent(&json),
        Err(text) => Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, text).json(),
    }
}

/// JSON as an answer.
pub(super) fn sent(json: &Json) -> Response {
    ([(header::CONTENT_TYPE, "application/json; charset=utf-8")], format!("{json:#}\n")).into_response()
}

/// A message as JSON.
///
/// # Errors
/// It is not in the compiled files.
pub(super) fn of_message(name: &str, message: &impl Message) -> Result<Json, String> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).ok());
    let known = pool.as_ref().and_then(|pool| pool.get_message_by_name(&format!("plimsoll.v1.{name}")));
    let descriptor: MessageDescriptor = known.ok_or_else(|| format!("no message {name} is known here"))?;
    let read = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice());
    Ok(object(&read.map_err(|error| error.to_string())?))
}

fn object(message: &DynamicMessage) -> Json {
    let descriptor = message.descriptor();
    let fields = descriptor.fields().map(|field| {
        let known = message.has_field(&field) || !field.supports_presence();
        let value = if known { value(&message.get_field(&field), &field) } else { Json::Null };
        (field.name().to_owned(), value)
    });
    Json::Object(fields.collect())
}

fn value(value: &Value, field: &FieldDescriptor) -> Json {
    match value {
        Value::Bool(yes) => Json::Bool(*yes),
        Value::I32(number) => Json::from(*number),
        Value::I64(number) => Json::from(*number),
        Value::U32(number) => Json::from(*number),
        Value::U64(number) => Json::from(*number),
        Value::F32(number) => float(f64::from(*number)),
        Value::F64(number) => float(*number),
        Value::String(text) => Json::String(text.clone()),
        Value::Bytes(bytes) => Json::String(String::from_utf8_lossy(bytes).into_owned()),
        Value::EnumNumber(number) => word(*number, field),
        Value::Message(message) => object(message),
        Value::List(list) => list.iter().map(|one| self::value(one, field)).collect(),
        Value::Map(map) => {
            let pair = |(key, one): (&MapKey, &Value)| (map_key(key), self::value(one, field));
            let mut pairs: Vec<_> = map.iter().map(pair).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(pairs.into_iter().collect::<Map<_, _>>())
        }
    }
}

/// JSON has no word for what is not a number.
fn float(number: f64) -> Json {
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::String(text) => text.clone(),
        MapKey::Bool(yes) => yes.to_string(),
        MapKey::I32(number) => number.to_string(),
        MapKey::I64(number) => number.to_string(),
        MapKey::U32(number) => number.to_string(),
        MapKey::U64(number) => number.to_string(),
    }
}

/// `OUTCOME_FAILED` of `Outcome` is `failed`; a number without a name stays one.
fn word(number: i32, field: &FieldDescriptor) -> Json {
    let Kind::Enum(of) = field.kind() else { return Json::from(number) };
    let (Some(named), Some(zero)) = (of.get_value(number), of.get_value(0)) else {
        return Json::from(number);
    };
    let prefix = zero.name().strip_suffix("UNSPECIFIED").unwrap_or_default();
    let name = named.name();
    Json::from(name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Cause, GetAttemptResponse, Key, Outcome, Summary};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_has_its_names_words_and_null_for_the_unknown() {
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
        let said = of_message("GetAttemptResponse", &shown).unwrap();
        let summary = &said["summary"];
        assert_eq!([&summary["outcome"], &summary["cause"]], [&json!("failed"), &json!("disk_full")]);
        assert_eq!([&summary["oom_kill"], &summary["starved_ms"]], [&json!(0), &Json::Null]);
        assert_eq!([&summary["cpu_peak_cores"], &said["verdict"]], [&Json::Null, &Json::Null]);
        assert_eq!((&summary["key"]["ref"], &said["series"]), (&json!("main"), &json!([])));
        assert_eq!(summary["key"]["labels"], json!({"a": "", "b": "<script>"}));
        assert!(of_message("Nothing", &shown).is_err());
    }
}
