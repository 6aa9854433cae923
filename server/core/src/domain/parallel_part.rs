//! Parts of a parallel job, by the names that GitLab gives them (lib/gitlab/ci/config/normalizer):
//!
//! | in the job | its parts |
//! |---|---|
//! | `parallel: 4` | `test 1/4` to `test 4/4` |
//! | `parallel: matrix` | `build: [arm64, debug]` |

/// The name of the parallel job that the job `name` is a part of; `None` if it is not a part.
pub(crate) fn job_of_part(name: &str) -> Option<&str> {
    let job = if let Some(matrix) = name.strip_suffix(']') {
        matrix.split_once(": [")?.0
    } else {
        let (job, part) = name.rsplit_once(' ')?;
        let (number, of) = part.split_once('/')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        Some(job).filter(|_| is_number(number) && is_number(of))?
    };
    Some(job.trim()).filter(|job| !job.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_parts_are_recognized_by_name() {
        for (name, job) in [
            ("test 2/4", "test"),
            ("unit tests 10/12", "unit tests"),
            ("build: [arm64, debug]", "build"),
            ("build: [a: [b], c]", "build"),
        ] {
            assert_eq!(job_of_part(name), Some(job), "{name}");
        }
        for name in [
            "",
            "test",
            "test 2",
            "2/4",
            " 1/2",
            "lint a/b",
            "test 1/",
            "test /2",
            ": [a]",
            "x]",
            "zlib@1.3 /abc",
        ] {
            assert_eq!(job_of_part(name), None, "{name}");
        }
    }
}
