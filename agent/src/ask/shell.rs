//! A prediction as lines for `eval`, for `export`, or for GitLab's dotenv reports. Names are those that GitLab's runner and Spack
//! read. A number that is not predicted has no line, so that the default of whoever reads it stays in force. Values hold only
//! letters and digits.

use std::fmt::Write as _;

use plimsoll_proto::v1::{Prediction, Quantity};

const MIB: u64 = 1 << 20;

/// One `NAME=value` on each line; none in shadow mode, so that everything stays as it is.
pub(super) fn render_prediction(prediction: &Prediction) -> String {
    if prediction.shadow {
        return String::new();
    }
    let mebibytes = |bytes: u64| format!("{}Mi", bytes.div_ceil(MIB));
    let millicores = |millicores: u64| format!("{millicores}m");
    let mut lines = String::new();
    let mut line = |name: &str, quantity: &Option<Quantity>, say: &dyn Fn(u64) -> String| {
        if let Some(value) = quantity.as_ref().map(|quantity| quantity.value).filter(|value| *value > 0) {
            let _written = writeln!(lines, "{name}={}", say(value));
        }
    };
    line("KUBERNETES_MEMORY_REQUEST", &prediction.memory_request_bytes, &mebibytes);
    line("KUBERNETES_MEMORY_LIMIT", &prediction.memory_limit_bytes, &mebibytes);
    line("KUBERNETES_CPU_REQUEST", &prediction.cpu_request_millicores, &millicores);
    line("KUBERNETES_CPU_LIMIT", &prediction.cpu_limit_millicores, &millicores);
    line("SPACK_BUILD_JOBS", &prediction.build_jobs, &|jobs| jobs.to_string());
    line("PLIMSOLL_WALL_P95_SECONDS", &prediction.wall_p95_ms, &|ms| ms.div_ceil(1000).to_string());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_gitlab_and_spack_read() {
        let quantity = |value| Some(Quantity { value, basis: None });
        let prediction = Prediction {
            memory_request_bytes: quantity(1_500_000_000),
            memory_limit_bytes: quantity(2 << 30),
            cpu_request_millicores: quantity(1500),
            build_jobs: quantity(4),
            wall_p95_ms: quantity(61_001),
            wall_p50_ms: quantity(1),
            reason: "$(rm -rf /)".to_owned(),
            ..Prediction::default()
        };
        let expected = "KUBERNETES_MEMORY_REQUEST=1431Mi\nKUBERNETES_MEMORY_LIMIT=2048Mi\n\
                        KUBERNETES_CPU_REQUEST=1500m\nSPACK_BUILD_JOBS=4\nPLIMSOLL_WALL_P95_SECONDS=62\n";
        assert_eq!(render_prediction(&prediction), expected);
        assert_eq!(render_prediction(&Prediction::default()), "");
        assert_eq!(render_prediction(&Prediction { shadow: true, ..prediction }), "", "nobody acts on it");
    }
}
