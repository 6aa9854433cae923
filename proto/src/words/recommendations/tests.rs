//! Each form of the same rows: `recorded.txt` has each below what it shows.

use super::*;
use crate::{fixtures::assert_recorded, v1::TakenBackLowering};

const GIB: u64 = 1 << 30;

fn sizes(request: u64, limit: u64) -> RequestedSizes {
    RequestedSizes {
        memory_request_bytes: Some(request * GIB),
        memory_limit_bytes: Some(limit * GIB).filter(|limit| *limit > 0),
        cpu_request_cores: Some(1.5),
    }
}

fn row(package: &str, proposed: Option<RequestedSizes>) -> Recommendation {
    Recommendation {
        project: "group/app".into(),
        package: package.into(),
        attempts: 40,
        today: Some(sizes(8, 16)),
        no_proposal: if proposed.is_some() { 0 } else { NoProposal::TooFew.into() },
        asked_gib_hours: 240.0,
        saved_gib_hours: if proposed.is_some() { 180.0 } else { 0.0 },
        saved_money: if proposed.is_some() { 1.8 } else { 0.0 },
        confidence: 0.6,
        limit_risk: proposed.map(|_| FitRisk { judged: 40, above: 0, at_most: 0.072 }),
        request_risk: proposed.map(|_| FitRisk { judged: 40, above: 2, at_most: 0.15 }),
        proposed,
        ..Recommendation::default()
    }
}

fn answer(recommendations: Vec<Recommendation>) -> RecommendResponse {
    RecommendResponse {
        asked_gib_hours: recommendations.iter().map(|row| row.asked_gib_hours).sum(),
        saved_gib_hours: recommendations.iter().map(|row| row.saved_gib_hours).sum(),
        saved_money: recommendations.iter().map(|row| row.saved_money).sum(),
        has_prices: true,
        currency: "EUR".into(),
        window_ms: 10 * DAY_MS,
        recommendations,
        ..RecommendResponse::default()
    }
}

fn three() -> RecommendResponse {
    let kept = row("a-package-with-a-very-long-name", Some(sizes(3, 0)));
    answer(vec![row("zlib", Some(sizes(2, 4))), row("few", None), kept])
}

/// A patch of these rows.
fn patch(form: fn(&RecommendResponse) -> Result<String, String>, rows: Vec<Recommendation>) -> String {
    form(&answer(rows)).unwrap()
}

/// A package with a lowering that is taken back.
fn held(package: &str) -> Recommendation {
    let day = |day: u64| day * DAY_MS;
    let taken_back = TakenBackLowering {
        lowered_unix_ms: day(20_760),
        failed_unix_ms: day(20_762),
        from_bytes: 6 * GIB,
        to_bytes: 3 * GIB,
        killed_at_bytes: Some(3 * GIB),
        held_until_unix_ms: day(20_854),
    };
    Recommendation { taken_back: Some(taken_back), ..row(package, Some(sizes(6, 6))) }
}

fn sized(package: &str) -> Recommendation {
    row(package, Some(sizes(2, 4)))
}

/// An answer that was cut: its sums are over more packages than it shows.
fn cut() -> RecommendResponse {
    let answer = answer(vec![sized("zlib")]);
    RecommendResponse { packages: 12, left_out: 11, saved_gib_hours: 60.0, ..answer }
}

/// Tables.
fn tables() -> Vec<(&'static str, String)> {
    let new = Recommendation { asked_gib_hours: 0.0, today: None, ..sized("new") };
    let other = Recommendation { project: "other".into(), ..sized("zlib") };
    vec![
        ("a table says what stays and why nothing is proposed", table(&three()).lines()),
        (
            "without prices there is no money",
            table(&RecommendResponse { has_prices: false, ..three() }).lines(),
        ),
        ("without a request what is saved is not known", table(&answer(vec![new])).lines()),
        ("a lowering that is taken back is named", table(&answer(vec![held("trilinos")])).lines()),
        ("of several projects each is named", table(&answer(vec![sized("zlib"), other])).lines()),
    ]
}

/// A list, and patches.
fn forms() -> Vec<(&'static str, String)> {
    let jobs = ["it's", "test 1/2", "test 2/2", "os: [arm, x86]", "half 1/2"];
    let mut matrix: Vec<Recommendation> = jobs.map(sized).into();
    matrix[2].proposed = Some(sizes(3, 4));
    matrix.push(row("half 2/2", None));
    let of_gitlab = ["default", "variables 1/2", "spec: [a]", ".hidden", "<<", "pages", "zlib"];
    let mut named: Vec<Recommendation> = of_gitlab.map(sized).into();
    named.push(row("few", None));
    let strange = ["a: b", "it's", "*a", "&a", "{{ a }}", "# a", "a\nb:", "a\u{2028}b"].map(sized);
    let quoted = answer(vec![sized("a,\"b\""), row("=cmd", None)]);
    vec![
        ("a CSV has a cell for each column, and texts are no formulas", csv(&quoted).replace('\r', "CR")),
        ("a GitLab patch sizes each job, and a matrix as one", patch(gitlab, matrix)),
        ("names that have a meaning in GitLab are no jobs and counted", patch(gitlab, named)),
        ("strange names stay one quoted key", patch(gitlab, strange.into())),
        (
            "a Kubernetes patch leaves out what cannot be a name",
            patch(kubernetes, vec![sized("zlib"), sized("Bad Name")]),
        ),
        ("a mapping for Spack keeps limits that stay", patch(spack, vec![row("zlib", Some(sizes(2, 0)))])),
        ("a patch names a lowering that is taken back", patch(spack, vec![held("trilinos")])),
        ("a CSV, too", csv(&answer(vec![held("trilinos")])).replace('\r', "CR")),
        ("a mapping for Spack of nothing", patch(spack, Vec::new())),
    ]
}

/// Sums of an answer that was cut, and risks.
fn words() -> Vec<(&'static str, String)> {
    assert_eq!(scope(&RecommendResponse { packages: 1, left_out: 0, ..cut() }), None);
    let many = RecommendResponse { packages: 500, left_out: 1000, ..cut() };
    let risk = FitRisk { judged: 40, above: 1, at_most: 0.1134 };
    let risks = [Some(&risk), Some(&FitRisk::default()), None].map(risk_words);
    vec![
        ("a cut patch, too", gitlab(&cut()).unwrap()),
        ("of very many packages, some count", scope(&many).unwrap()),
        ("a risk says what it counted and how sure that is", risks.join("\n")),
    ]
}

#[test]
fn reports_and_patches_are_as_recorded() {
    let texts = [tables(), forms(), words()].concat();
    assert_recorded(&texts, include_str!("recorded.txt"), "recommendation_words");
}

#[test]
fn patches_are_for_one_project() {
    let other = Recommendation { project: "other".into(), ..row("zlib", None) };
    let two = answer(vec![row("zlib", Some(sizes(2, 4))), other]);
    for patch in [gitlab(&two), kubernetes(&two), spack(&two)] {
        assert!(patch.unwrap_err().ends_with("there are 2: name one with --project"));
    }
}
