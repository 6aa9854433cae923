//! Decodes the query of a request target like an HTML form: `+` is a space, `%2B` is a plus.

use crate::domain::FieldViolation;

/// Longest query, bytes. Spack's longest spec has 844 bytes with its path. Other servers accept about eight times that for the whole
/// request line.
const QUERY_BYTES: usize = 8192;

/// The value of the parameter with this name, which must occur once.
/// Errors: the parameter is missing, occurs twice, is empty, has control characters, or is not percent-encoded UTF-8.
pub fn parameter(query: &str, name: &str) -> Result<String, FieldViolation> {
    let fault = |description: String| FieldViolation::new(name, description);
    if query.len() > QUERY_BYTES {
        return Err(fault(format!("the query has {} bytes, at most {QUERY_BYTES} are allowed", query.len())));
    }
    let mut found = query.split('&').filter_map(|pair| match pair.split_once('=') {
        Some((key, value)) => (key == name).then_some(value),
        None => (pair == name).then_some(""),
    });
    let value = found.next().ok_or_else(|| fault(format!("is missing; ask with ?{name}=...")))?;
    if found.next().is_some() {
        return Err(fault("is given twice; ask for one at a time".to_owned()));
    }
    let value = percent_decode(value).map_err(fault)?;
    if value.trim().is_empty() {
        return Err(fault("is empty".to_owned()));
    }
    if value.chars().any(char::is_control) {
        return Err(fault("holds a control character; send printable text".to_owned()));
    }
    Ok(value)
}

fn percent_decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'+' => b' ',
            b'%' => {
                let digit =
                    |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|n| u8::try_from(n).ok());
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let number = high.zip(low).map(|(high, low)| high * 16 + low);
                number.ok_or("holds a % without two hexadecimal digits; write a percent sign as %25")?
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map_err(|_not_text| "is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone() {
        let spec =
            parameter("spec=gcc%4012%20languages%3A%3D%27c%2Cc%2B%2B%27+x/y&other=%zz", "spec").unwrap();
        assert_eq!(spec, "gcc@12 languages:='c,c++' x/y");
    }

    #[test]
    fn invalid_query_parameters_are_refused_by_name() {
        let long = format!("spec={}", "a".repeat(QUERY_BYTES));
        for (query, words) in [
            ("", "missing"),
            ("specs=a", "missing"),
            ("spec", "empty"),
            ("spec=%20", "empty"),
            ("spec=a&spec=b", "twice"),
            ("spec=%4", "%25"),
            ("spec=%zz", "%25"),
            ("spec=%+1", "%25"),
            ("spec=%ff", "UTF-8"),
            ("spec=a%00b", "control"),
            ("spec=a%0d%0ab", "control"),
            (long.as_str(), "bytes"),
        ] {
            let fault = parameter(query, "spec").unwrap_err();
            assert!(fault.field == "spec" && fault.description.contains(words), "{query}: {fault}");
        }
    }
}
