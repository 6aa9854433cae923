//! One number of each sort that a server sends. The table of all sentences is made from them.

use super::{SizeBound, SizeKind};
use crate::{
    WireEnum as _, figures,
    v1::{self, Basis, Quantity, Rung, SizeBoundKind},
};

/// Numbers with every bound that they can have, on every rung that can decide them.
pub(super) fn examples() -> Vec<(SizeKind, Quantity)> {
    let mut all = Vec::new();
    for kind in SizeKind::ALL {
        all.extend(by_attempts(kind));
        let bounds = bounds(kind).into_iter().filter(|bound| can_have_bound(kind, bound));
        all.extend(bounds.map(|bound| (kind, example(kind, (Rung::Exact, 7), &bound))));
    }
    // a size above the one at which memory stopped the last attempt, without any history
    let stopped = SizeBound::Stopped("280 MiB".to_owned());
    all.push((SizeKind::MemoryLimit, example(SizeKind::MemoryLimit, (Rung::Fleet, 0), &stopped)));
    // a cap below everything that is needed, and defaults because little is known
    let cap = SizeBound::Cap("400 MiB".to_owned());
    let mut cut = example(SizeKind::MemoryLimit, (Rung::Exact, 7), &cap);
    if let Some(basis) = &mut cut.basis {
        basis.quantile = 0.0;
    }
    all.push((SizeKind::MemoryLimit, cut));
    let mut alike = example(SizeKind::MemoryRequest, (Rung::Exact, 7), &SizeBound::None);
    if let Some(basis) = &mut alike.basis {
        basis.all_of_rung = true;
    }
    all.push((SizeKind::MemoryRequest, alike));
    for attempts in [1, 2] {
        let mut default = example(SizeKind::CpuLimit, (Rung::Default, 0), &SizeBound::Default);
        if let Some(basis) = &mut default.basis {
            (basis.attempts, basis.quantile) = (attempts, 0.0);
        }
        all.push((SizeKind::CpuLimit, default));
    }
    all
}

/// Numbers that attempts alone decided.
fn by_attempts(kind: SizeKind) -> Vec<(SizeKind, Quantity)> {
    let rungs = [
        (Rung::Exact, 1),
        (Rung::Exact, 7),
        (Rung::NoVersion, 7),
        (Rung::NoCompiler, 7),
        (Rung::Package, 7),
        (Rung::Siblings, 7),
        (Rung::BuildSystem, 7),
        (Rung::Fleet, 7),
    ];
    rungs.into_iter().map(|on| (kind, example(kind, on, &SizeBound::None))).collect()
}

/// One bound of each sort, with sizes that numbers of this kind can have.
pub(super) fn bounds(kind: SizeKind) -> Vec<SizeBound> {
    let cpu = matches!(kind, SizeKind::CpuRequest | SizeKind::CpuLimit);
    let size = |bound: SizeBoundKind| match bound {
        SizeBoundKind::Cap | SizeBoundKind::Pool | SizeBoundKind::HalfOf | SizeBoundKind::RoomIn if cpu => {
            "2 cores"
        }
        SizeBoundKind::Cap | SizeBoundKind::Pool | SizeBoundKind::HalfOf | SizeBoundKind::RoomIn => "400 MiB",
        SizeBoundKind::Floor if cpu => "0.1 cores",
        SizeBoundKind::Floor => "64 MiB",
        SizeBoundKind::LastSize => "15.62 GiB",
        SizeBoundKind::TooShort => "1 min 0 s",
        SizeBoundKind::HeldBack => "1.2",
        _ => "280 MiB",
    };
    let of = |bound: SizeBoundKind| {
        let (kind, size, pool) = (bound.into(), size(bound).to_owned(), "big".to_owned());
        SizeBound::of_wire(v1::SizeBound { kind, size, pool, count: 4 })
    };
    let other = SizeBound::Other("text of another release".to_owned());
    [SizeBound::None].into_iter().chain(SizeBoundKind::all().filter_map(of)).chain([other]).collect()
}

fn can_have_bound(kind: SizeKind, bound: &SizeBound) -> bool {
    let memory = matches!(kind, SizeKind::MemoryRequest | SizeKind::MemoryLimit);
    let cpu = matches!(kind, SizeKind::CpuRequest | SizeKind::CpuLimit);
    let time = matches!(kind, SizeKind::MedianTime | SizeKind::LongTime);
    match bound {
        SizeBound::None => false,
        SizeBound::Default | SizeBound::Other(_) => true,
        SizeBound::AskedFor | SizeBound::HalfOf(..) | SizeBound::RoomIn(_) | SizeBound::MostWeight => {
            kind == SizeKind::BuildJobs
        }
        SizeBound::Cap(_) | SizeBound::Floor(_) | SizeBound::Pool(..) | SizeBound::LastAttempt => {
            memory || cpu
        }
        SizeBound::TrustedTimes(_) => memory || cpu || time,
        SizeBound::Request => matches!(kind, SizeKind::MemoryLimit | SizeKind::CpuLimit),
        SizeBound::LastLimit => matches!(kind, SizeKind::MemoryRequest | SizeKind::CpuRequest),
        SizeBound::AboveRequest(_) => kind == SizeKind::MemoryRequest,
        SizeBound::Preset
        | SizeBound::PeaksFromPrometheus
        | SizeBound::NeedsByProcesses
        | SizeBound::NeedsOfPaused => kind == SizeKind::MemoryLimit,
        SizeBound::LastSize(_)
        | SizeBound::TrustedNeed
        | SizeBound::Stopped(_)
        | SizeBound::NeededAbove(_)
        | SizeBound::Grown(_)
        | SizeBound::VerdictBefore
        | SizeBound::MayHaveHad(_)
        | SizeBound::TakenBack(_) => memory,
        SizeBound::TooShort(_) => time,
        SizeBound::HeldBack(_) => cpu,
    }
}

fn example(kind: SizeKind, (rung, attempts): (Rung, u32), bound: &SizeBound) -> Quantity {
    let (value, quantile, margin) = match kind {
        SizeKind::MemoryRequest => (422 << 20, 0.95, 1.0),
        SizeKind::MemoryLimit => (552 << 20, 0.99, 1.15),
        SizeKind::CpuRequest => (1_500, 0.5, 1.0),
        SizeKind::CpuLimit => (3_800, 0.95, 1.0),
        SizeKind::BuildJobs => (2, 0.0, 1.0),
        SizeKind::MedianTime => (60_000, 0.5, 1.0),
        SizeKind::LongTime => (90_000, 0.95, 1.0),
    };
    let (rung, attempts) = if *bound == SizeBound::Default { (Rung::Default, 0) } else { (rung, attempts) };
    let memory = matches!(kind, SizeKind::MemoryRequest | SizeKind::MemoryLimit);
    let (value, quantile) = match bound {
        // a pool or the limit on untrusted attempts lowers the number, so the share of builds that it covers is not known
        SizeBound::Pool(..) => (if memory { 400 << 20 } else { 2000 }, 0.0),
        SizeBound::TrustedTimes(_) | SizeBound::TrustedNeed => (value, 0.0),
        SizeBound::Cap(_) if memory => (400 << 20, 0.63),
        SizeBound::Cap(_) => (2000, 0.0),
        SizeBound::Floor(_) => (if memory { 64 << 20 } else { 100 }, quantile),
        SizeBound::LastSize(_) => (13 << 30, quantile),
        _ => (value, quantile),
    };
    // the size that was too small is the value divided by the margin
    let margin = if matches!(bound, SizeBound::Stopped(_) | SizeBound::MayHaveHad(_)) {
        figures::float(value) / figures::float(280 << 20)
    } else {
        margin
    };
    let (size_bound, bound) = (bound.to_wire(), bound.to_string());
    let basis =
        Basis { rung: rung.into(), attempts, quantile, margin, bound, size_bound, ..Basis::default() };
    Quantity { value, basis: Some(basis) }
}
