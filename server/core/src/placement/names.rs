//! Checks names by Kubernetes' rules. Kubernetes would refuse a pod with an invalid name, and the build would be lost, so the operator's
//! file is refused instead.
//!
//! The rules are from Kubernetes' documentation ("Labels and Selectors", "Object Names and IDs").

/// Most bytes of a label's name without prefix, and of its value.
const NAME_BYTES: usize = 63;
/// Most bytes of a DNS subdomain.
const SUBDOMAIN_BYTES: usize = 253;

/// The error in the key of a label or taint; `None` if it is valid. A key is a name, which a DNS subdomain and a slash may precede.
pub(super) fn key_mistake(key: &str) -> Option<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if let Some(prefix) = prefix.filter(|prefix| !is_subdomain(prefix)) {
        return Some(format!("{prefix:?} before the slash is not a DNS name in lower case, as example.com"));
    }
    (!is_name(name)).then(|| format!("{name:?} {NAME_RULE}"))
}

/// The error in the value of a label or taint; `None` if it is valid. It may be empty.
pub(super) fn value_mistake(value: &str) -> Option<String> {
    (!value.is_empty() && !is_name(value)).then(|| format!("{value:?} {NAME_RULE}"))
}

/// The error in the name of a priority class; `None` if it is valid.
pub(super) fn class_mistake(name: &str) -> Option<String> {
    (!is_subdomain(name)).then(|| {
        format!("{name:?} is not 1 to {SUBDOMAIN_BYTES} of a-z 0-9 - . with a letter or digit at both ends")
    })
}

const NAME_RULE: &str = "is not 1 to 63 of A-Z a-z 0-9 - _ . with a letter or digit at both ends";

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let at_the_ends = [bytes.first(), bytes.last()];
    let has_ends = at_the_ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
    let is_plain = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    has_ends && is_plain && bytes.len() <= NAME_BYTES
}

fn is_subdomain(name: &str) -> bool {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let has_ends = [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(|end| *end != b'-'));
        has_ends
            && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    name.len() <= SUBDOMAIN_BYTES && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_kubernetes_takes_them() {
        let long = "x".repeat(64);
        for key in ["zone", "a", "A_b.c-9", "node.kubernetes.io/instance-type", "karpenter.sh/capacity_type"]
        {
            assert_eq!(key_mistake(key), None, "{key}");
        }
        for key in [
            "",
            "-a",
            "a-",
            "a b",
            "zone=a",
            "a/b/c",
            "/a",
            "a/",
            "UPPER.io/a",
            "a..b/c",
            "-a.io/b",
            "é",
            &long,
        ] {
            assert!(key_mistake(key).is_some(), "{key}");
        }
        for value in ["", "true", "m5.large", "A_1"] {
            assert_eq!(value_mistake(value), None, "{value}");
        }
        for value in ["two words", "a/b", "x=y", ".a", "a_", &long] {
            assert!(value_mistake(value).is_some(), "{value}");
        }
        for class in ["system-cluster-critical", "low", "a.b", &long] {
            assert_eq!(class_mistake(class), None, "{class}");
        }
        for class in ["", "Low", "a_b", "a/b", "a.", "-a", &"x".repeat(254)] {
            assert!(class_mistake(class).is_some(), "{class}");
        }
    }
}
