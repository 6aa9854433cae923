//! Exit codes that report verdicts, so that the CI system can act on them (GitLab: `retry: exit_codes:`).

use plimsoll_proto::{WireEnum as _, v1::Action};

/// Exit codes that replace the exit code of a failed build, by verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExitCodes(Vec<(Action, u8)>);

impl ExitCodes {
    /// Parses `VERDICT=CODE` pairs. A verdict may be spelt with `-` or `_`.
    /// Errors: A verdict is unknown or repeated, or a code is not from 1 to 255; the text describes valid ones.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut codes: Vec<(Action, u8)> = Vec::new();
        for pair in pairs.into_iter().map(str::trim).filter(|pair| !pair.is_empty()) {
            let (action, code) = read(pair).map_err(|why| format!("{pair:?}: {why}"))?;
            if codes.iter().any(|(known, _)| *known == action) {
                return Err(format!("{pair:?}: {} has a code already", name(action)));
            }
            codes.push((action, code));
        }
        Ok(Self(codes))
    }

    /// Whether no verdict has an exit code of its own.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The exit code for a verdict, if it has one.
    pub(super) fn of(&self, action: Action) -> Option<u8> {
        self.0.iter().find(|(known, _)| *known == action).map(|(_, code)| *code)
    }
}

fn read(pair: &str) -> Result<(Action, u8), String> {
    let (verdict, code) = pair.split_once('=').ok_or("expected VERDICT=CODE, for example bigger=82")?;
    let wanted = verdict.trim().replace('_', "-");
    let action = Action::all().find(|action| name(*action) == wanted).ok_or_else(|| {
        let known: Vec<_> = Action::all().map(name).collect();
        format!("{verdict:?} is not a verdict; verdicts are: {}", known.join(", "))
    })?;
    match code.trim().parse::<u8>() {
        Ok(0) => Err("0 would make a failed build pass; expected 1 to 255".to_owned()),
        Ok(code) => Ok((action, code)),
        Err(_) => Err(format!("{code:?} is not an exit code; expected 1 to 255")),
    }
}

/// The spelling of a verdict, for example `as-is`.
fn name(action: Action) -> String {
    action.word().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_accepts_a_code_in_both_spellings() {
        let line = "no=1, as-is=2,as_is =3";
        assert!(ExitCodes::parse(line.split(',')).unwrap_err().contains("as-is has a code already"));
        let line = "no=1, as_is=83,bigger=82,fewer-jobs=82,longer=255,elsewhere = 7,";
        let codes = ExitCodes::parse(line.split(',')).unwrap();
        assert!(Action::all().map(|action| codes.of(action)).eq([1, 83, 82, 82, 255, 7].map(Some)));
        assert_eq!(codes.of(Action::Unspecified), None);
        assert!(ExitCodes::parse([""]).unwrap().is_empty());
    }

    #[test]
    fn invalid_exit_code_pairs_name_the_valid_form() {
        for (pair, expected) in [
            ("bigger", "expected VERDICT=CODE"),
            ("larger=3", "verdicts are: no, as-is, bigger, fewer-jobs, longer, elsewhere"),
            ("unspecified=3", "is not a verdict"),
            ("bigger=0", "0 would make a failed build pass; expected 1 to 255"),
            ("bigger=256", "expected 1 to 255"),
            ("bigger=-1", "expected 1 to 255"),
        ] {
            let error = ExitCodes::parse([pair]).unwrap_err();
            assert!(error.contains(expected) && error.contains(pair), "{error}");
        }
    }
}
