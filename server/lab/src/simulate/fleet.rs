//! Parses the kinds of nodes that a fleet may have: `16x64GiB:8,64x256GiB@3.20`.

use plimsoll_core::{
    domain::{Bytes, Cores},
    placement::{Placement, PoolPrice, ResourceNeeds},
};
use plimsoll_proto::quantity;

/// Most kinds of nodes in a fleet.
const MAX_NODE_KINDS: usize = 16;
/// Most nodes of one kind, and the number if none is given. It limits memory and time, and is above any real
/// fleet.
const MAX_NODES: usize = 100_000;
/// Highest price of a node for an hour; a higher one is a typing mistake, and is refused.
const HIGHEST_PRICE: f64 = 1_000_000.0;

/// A kind of node: nodes of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeKind {
    /// The text of the kind, without number and price.
    pub name: String,
    /// Cores of a node, in thousandths.
    pub millicores: u64,
    /// Memory of a node that builds can use.
    pub memory: Bytes,
    /// Most nodes of this kind that may be open at once.
    pub most_open: usize,
    pub(crate) price_hour: f64,
}

/// The kinds of nodes that may be used; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// The text from which the fleet was parsed.
    pub name: String,
    /// The kinds of nodes, in the order in which they are filled.
    pub kinds: Vec<NodeKind>,
}

impl Fleet {
    /// Parses kinds of nodes, separated by commas. Each is `CORESxMEMORY` or the name of a pool, then
    /// optionally `:COUNT` for the most nodes, then optionally `@PRICE` for an hour of a node. The default
    /// price is that of the pool, or that of the cores and memory at `price`.
    /// Errors: the text says which part is wrong.
    pub fn parse(text: &str, pools: &Placement, price: PoolPrice) -> Result<Self, String> {
        let kinds = text.split(',').map(|part| parse_kind(part.trim(), pools, price));
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        if kinds.len() > MAX_NODE_KINDS {
            return Err(format!("{} kinds of nodes, at most {MAX_NODE_KINDS} are allowed", kinds.len()));
        }
        Ok(Self { name: text.to_owned(), kinds })
    }

    /// The size that a build gets: its request, or if no node is large enough for it, as much as the largest
    /// node has.
    pub(super) fn clamp(&self, milli: u64, memory: u64) -> (u64, u64) {
        if self.kinds.iter().any(|kind| kind.millicores >= milli && kind.memory.0 >= memory) {
            return (milli, memory);
        }
        let with_memory =
            self.kinds.iter().filter(|kind| kind.memory.0 >= memory).max_by_key(|kind| kind.millicores);
        let largest =
            with_memory.or_else(|| self.kinds.iter().max_by_key(|kind| (kind.memory, kind.millicores)));
        largest.map_or((milli, memory), |kind| (milli.min(kind.millicores), memory.min(kind.memory.0)))
    }
}

fn parse_kind(part: &str, pools: &Placement, price: PoolPrice) -> Result<NodeKind, String> {
    let (rest, price_hour) = match part.rsplit_once('@') {
        Some((rest, price)) => (rest, Some(parse_node_price(part, price)?)),
        None => (part, None),
    };
    let (name, most) = match rest.rsplit_once(':') {
        Some((name, count)) => (name, parse_node_count(part, count)?),
        None => (rest, MAX_NODES),
    };
    let (cores, memory, price) = parse_node_size(name, pools, price)?;
    let price_hour = price_hour.unwrap_or_else(|| {
        price.of(&ResourceNeeds { memory_request: memory, cpu_request: cores, ..ResourceNeeds::default() })
    });
    let milli = quantity::rounded_millicores(cores.0);
    if milli == 0 {
        return Err(format!("{part:?}: a node without cores builds nothing"));
    }
    if memory < Bytes::MIB {
        return Err(format!(
            "{part:?}: a node with less than 1 MiB builds nothing; write memory with its unit, as 16x64GiB"
        ));
    }
    Ok(NodeKind { name: name.to_owned(), millicores: milli, memory, most_open: most, price_hour })
}

fn parse_node_price(part: &str, text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if (0.0..=HIGHEST_PRICE).contains(&price) => Ok(price),
        _ if text.contains(':') => {
            Err(format!("{part:?}: the number of nodes comes before the price, as 16x64GiB:8@3.20"))
        }
        _ => Err(format!("{part:?}: {text:?} is not a price of a node for an hour, 0 to {HIGHEST_PRICE}")),
    }
}

fn parse_node_count(part: &str, text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=MAX_NODES).contains(&count) => Ok(count),
        _ => Err(format!(
            "{part:?}: {text:?} is not a number of nodes, 1 to {MAX_NODES}; leave it out for as many as it takes"
        )),
    }
}

/// Cores and memory of a node, and its prices for cores and memory.
fn parse_node_size(
    name: &str,
    pools: &Placement,
    price: PoolPrice,
) -> Result<(Cores, Bytes, PoolPrice), String> {
    if let Some(pool) = pools.pool(name) {
        let (Some(cores), Some(memory)) = pool.builder else {
            return Err(format!(
                "pool {name}: the file of pools does not say cores and memory of its builders"
            ));
        };
        return Ok((cores, memory, pool.price));
    }
    let Some((cores, memory)) = name.split_once('x') else {
        let known: Vec<&str> = pools.pools().iter().map(|pool| pool.name.as_str()).collect();
        let known = if known.is_empty() { "none is known".to_owned() } else { known.join(", ") };
        return Err(format!("{name:?} is neither CORESxMEMORY, for example 16x64GiB, nor a pool ({known})"));
    };
    let wrong = |why: String| format!("{name:?}: {why}");
    let cores = quantity::parse_cores(cores).map_err(wrong)?;
    let memory = quantity::bytes(memory).map_err(wrong)?;
    Ok((Cores(cores), Bytes(memory), price))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: PoolPrice = PoolPrice { gib_hour: 0.01, core_hour: 0.1 };

    fn parse(text: &str) -> Result<Fleet, String> {
        let pools = "[[pool]]\nname = \"max.2x\"\ncores = 8\nmemory = \"32GiB\"\nprice_core_hour = 1.0\n\
                     [[pool]]\nname = \"vague\"\n";
        Fleet::parse(text, &Placement::parse(pools).unwrap(), PRICE)
    }

    #[test]
    fn kinds_of_nodes_are_read_with_their_number_and_price() {
        let fleet = parse("16x64GiB:8, 1500mx4Gi@0.5,max.2x:3").unwrap();
        let nodes: Vec<(u64, u64, usize)> =
            fleet.kinds.iter().map(|kind| (kind.millicores, kind.memory.0 >> 30, kind.most_open)).collect();
        assert_eq!(nodes, [(16_000, 64, 8), (1500, 4, MAX_NODES), (8000, 32, 3)]);
        let prices: Vec<String> = fleet.kinds.iter().map(|kind| format!("{:.3}", kind.price_hour)).collect();
        assert_eq!(prices, ["2.240", "0.500", "8.000"]);
    }

    #[test]
    fn what_is_no_fleet_is_refused_with_the_part_that_is_wrong() {
        for (wrong, part) in [
            ("", "\"\" is neither"),
            ("16", "nor a pool (max.2x, vague)"),
            ("16x64GiB,moon", "\"moon\" is neither"),
            ("vague", "does not say cores and memory"),
            ("0x64GiB", "builds nothing"),
            ("16x64", "with its unit, as 16x64GiB"),
            ("16x64GiB@3.20:8", "comes before the price, as 16x64GiB:8@3.20"),
            ("16x64GiB:0", "\"0\" is not a number of nodes"),
            ("16x64GiB:-1", "\"-1\" is not a number of nodes"),
            ("16x64GiB:99999999", "is not a number of nodes"),
            ("16x64GiB@-1", "\"-1\" is not a price"),
            ("16x64GiB@NaN", "\"NaN\" is not a price"),
            ("16xlots", "is not a size"),
            ("fewx64GiB", "is not a number of cores"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
        let many = vec!["1x1GiB"; MAX_NODE_KINDS + 1].join(",");
        assert!(parse(&many).unwrap_err().contains("17 kinds"));
    }

    #[test]
    fn what_no_node_has_is_lowered_to_the_largest() {
        let fleet = parse("16x64GiB,4x128GiB").unwrap();
        let clamp = |milli, gib: u64| {
            let (milli, memory) = fleet.clamp(milli, gib << 30);
            (milli, memory >> 30)
        };
        assert_eq!(clamp(2000, 100), (2000, 100));
        assert_eq!(clamp(2000, 300), (2000, 128));
        // memory first: without it the build is lost, without cores it is slow
        assert_eq!(clamp(8000, 100), (4000, 100));
        assert_eq!(clamp(32_000, 10), (16_000, 10));
    }
}
