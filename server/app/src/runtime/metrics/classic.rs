//! Converts metrics to the text format before OpenMetrics, for programs that cannot read
//! OpenMetrics (such as `promtool check metrics`).

use std::{borrow::Cow, fmt::Write as _};

/// Prometheus' text format 0.0.4, from OpenMetrics text: the type and help lines of counters get
/// `_total`, an info becomes a gauge, and units and the end marker are removed.
pub(super) fn of(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (name, kind): (Cow<'_, str>, &str) = match kind {
                "counter" => (format!("{name}_total").into(), kind),
                "info" => (format!("{name}_info").into(), "gauge"),
                "unknown" => (name.into(), "untyped"),
                _ => (name.into(), kind),
            };
            let help = help.split_once(' ').map_or("", |(_, help)| help);
            let _written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        } else if !line.starts_with('#') {
            let _written = writeln!(text, "{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_infos_are_named_as_their_samples() {
        let openmetrics = "# HELP a Said.\n# TYPE a counter\na_total 1\n# HELP b_bytes Big.\n# TYPE b_bytes gauge\n\
            # UNIT b_bytes bytes\nb_bytes 2\n# HELP c Who.\n# TYPE c info\nc_info{version=\"1\"} 1\n# EOF\n";
        let expected = "# HELP a_total Said.\n# TYPE a_total counter\na_total 1\n# HELP b_bytes Big.\n# TYPE b_bytes gauge\n\
            b_bytes 2\n# HELP c_info Who.\n# TYPE c_info gauge\nc_info{version=\"1\"} 1\n";
        assert_eq!(of(openmetrics), expected);
    }
}
