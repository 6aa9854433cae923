//! Prints a prediction as lines for `eval`, for `export`, or for GitLab's dotenv reports. The variables are
//! those that GitLab's runner and Spack read. Unknown numbers are left out, so that the reader's own default
//! applies. Values contain only letters and digits.

use std::fmt::Write as _;

use plimsoll_proto::{
    figures::percent,
    reasons::{self, MIN_CONFIDENCE},
    v1::{Prediction, Quantity, Rung},
};

const MIB: u64 = 1 << 20;

fn is_sure(prediction: &Prediction) -> bool {
    prediction.confidence >= MIN_CONFIDENCE
}

/// Why the output has no lines, or only lines about memory; `None` if it has all.
pub(super) fn missing_lines_reason(prediction: &Prediction) -> Option<String> {
    let why = if prediction.shadow {
        "shadow mode is on".to_owned()
    } else if !is_sure(prediction) {
        if let Some(bound) = &prediction.lower_bound {
            let bound = reasons::lower_bound(bound);
            return Some(format!(
                "plimsoll: memory is only a lower bound: {bound}; the rest stays as the job says"
            ));
        }
        let (sure, least) = (percent(prediction.confidence), percent(MIN_CONFIDENCE));
        format!("the sizes are {sure} sure, and {least} is the least")
    } else {
        return None;
    };
    Some(format!("plimsoll: no sizes: {why}; what the job says stays in force"))
}

/// One `NAME=value` on each line; no lines in shadow mode, so that nothing changes. If attempts were killed for
/// memory and none succeeded, there are always memory lines: they have the size for the next retry, and a
/// further line marks it as a lower bound.
pub(super) fn render_prediction(prediction: &Prediction) -> String {
    let (sure, bound) = (is_sure(prediction), prediction.lower_bound.as_ref());
    if prediction.shadow || (!sure && bound.is_none()) {
        return String::new();
    }
    let is_default =
        |quantity: &Quantity| quantity.basis.as_ref().is_none_or(|basis| basis.rung() == Rung::Default);
    let is_known = |quantity: &&Quantity| quantity.value > 0 && sure && !is_default(quantity);
    let mebibytes = |bytes: u64| format!("{}Mi", bytes.div_ceil(MIB));
    let millicores = |millicores: u64| format!("{millicores}m");
    let mut lines = String::new();
    let memory = [
        ("KUBERNETES_MEMORY_REQUEST", &prediction.memory_request_bytes),
        ("KUBERNETES_MEMORY_LIMIT", &prediction.memory_limit_bytes),
    ];
    for (name, quantity) in memory {
        let is_given = |quantity: &&Quantity| bound.is_some() || is_known(quantity);
        if let Some(quantity) = quantity.as_ref().filter(is_given) {
            let least = bound.filter(|_| is_default(quantity)).map(|bound| bound.least_bytes);
            let _written = writeln!(lines, "{name}={}", mebibytes(least.unwrap_or(quantity.value)));
        }
    }
    if let Some(bound) = bound {
        let _written = writeln!(lines, "PLIMSOLL_MEMORY_LOWER_BOUND={}", mebibytes(bound.least_bytes));
    }
    let mut line = |name: &str, quantity: &Option<Quantity>, say: &dyn Fn(u64) -> String| {
        if let Some(value) = quantity.as_ref().filter(is_known).map(|quantity| quantity.value) {
            let _written = writeln!(lines, "{name}={}", say(value));
        }
    };
    line("KUBERNETES_CPU_REQUEST", &prediction.cpu_request_millicores, &millicores);
    line("KUBERNETES_CPU_LIMIT", &prediction.cpu_limit_millicores, &millicores);
    line("SPACK_BUILD_JOBS", &prediction.build_jobs, &|jobs| jobs.to_string());
    line("PLIMSOLL_WALL_P95_SECONDS", &prediction.wall_p95_ms, &|ms| ms.div_ceil(1000).to_string());
    lines
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Basis, LowerBound};

    use super::*;

    #[test]
    fn lines_are_what_gitlab_and_spack_read() {
        let of = |value, rung: Rung| {
            Some(Quantity { value, basis: Some(Basis { rung: rung.into(), ..Basis::default() }) })
        };
        let quantity = |value| of(value, Rung::Exact);
        let prediction = Prediction {
            memory_request_bytes: quantity(1_500_000_000),
            memory_limit_bytes: quantity(2 << 30),
            cpu_request_millicores: quantity(1500),
            build_jobs: quantity(4),
            wall_p95_ms: quantity(61_001),
            wall_p50_ms: quantity(1),
            cpu_limit_millicores: of(2000, Rung::Default),
            confidence: 0.5,
            reason: "$(rm -rf /)".to_owned(),
            ..Prediction::default()
        };
        let expected = "KUBERNETES_MEMORY_REQUEST=1431Mi\nKUBERNETES_MEMORY_LIMIT=2048Mi\n\
                        KUBERNETES_CPU_REQUEST=1500m\nSPACK_BUILD_JOBS=4\nPLIMSOLL_WALL_P95_SECONDS=62\n";
        assert_eq!(render_prediction(&prediction), expected);
        let nothing = |prediction: Prediction, why| {
            assert_eq!(render_prediction(&prediction), "");
            assert!(
                missing_lines_reason(&prediction).unwrap().contains(why),
                "{:?}",
                missing_lines_reason(&prediction)
            );
        };
        nothing(Prediction::default(), "0 % sure, and 10 % is the least");
        nothing(Prediction { confidence: 0.09, ..prediction.clone() }, " sure, and 10 % is the least");
        nothing(Prediction { shadow: true, ..prediction }, "shadow mode");
    }

    #[test]
    fn killed_attempts_yield_a_marked_lower_bound() {
        let default = |value| {
            let basis = Basis { rung: Rung::Default.into(), ..Basis::default() };
            Some(Quantity { value, basis: Some(basis) })
        };
        let prediction = Prediction {
            memory_request_bytes: default(2 << 30),
            memory_limit_bytes: default(4 << 30),
            cpu_request_millicores: default(1000),
            lower_bound: Some(LowerBound { above_bytes: 250 << 20, attempts: 1, least_bytes: 375 << 20 }),
            ..Prediction::default()
        };
        let expected = "KUBERNETES_MEMORY_REQUEST=375Mi\nKUBERNETES_MEMORY_LIMIT=375Mi\nPLIMSOLL_MEMORY_LOWER_BOUND=375Mi\n";
        assert_eq!(render_prediction(&prediction), expected);
        let why = "more than 250 MiB: 1 attempt was killed there; try at least 375 MiB; the rest stays as the job says";
        let reason = missing_lines_reason(&prediction).unwrap();
        assert!(reason.contains(why), "{reason}");
        assert_eq!(render_prediction(&Prediction { shadow: true, ..prediction }), "");
    }
}
