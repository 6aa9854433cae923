//! Prices of memory and CPU in each pool.

use std::{collections::BTreeMap, fmt};

/// Highest price; a larger one is refused as a typing error.
const HIGHEST_PRICE: f64 = 1_000_000.0;
/// Most pools with a price.
const MAX_POOLS: usize = 1000;

/// Price of a reservation, in the operator's currency.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Price {
    /// Price of a GiB for an hour.
    pub gib_hour: f64,
    /// Price of a core for an hour.
    pub core_hour: f64,
}

/// Prices from the operator's file of pools. They take precedence over those of the settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolPrices {
    /// Prices by name of the pool.
    pub pools: BTreeMap<String, Price>,
    /// Currency of the prices in the file; empty if the file names none.
    pub currency: String,
}

/// Prices of some pools, and a price for all others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    default: Price,
    pools: BTreeMap<String, Price>,
}

impl Prices {
    /// Parses `0.005/0.04, big=0.006/0.05`: prices of a GiB and of a core for an hour, for all pools and for pools with another price.
    /// Errors: Names the invalid part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut prices = Self::default();
        let mut seen_default = false;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (pool, price) =
                part.rsplit_once('=').map_or((None, part), |(pool, price)| (Some(pool.trim()), price));
            let price = read(price).ok_or_else(|| {
                format!("{part:?} is not a price; write GiB-hour/core-hour as 0.005/0.04, or of a pool as big=0.006/0.05")
            })?;
            let twice = match pool {
                None => std::mem::replace(&mut seen_default, true),
                Some(pool) => prices.pools.insert(pool.to_owned(), price).is_some(),
            };
            if twice {
                return Err(format!("{part:?} is a second price of the same"));
            }
            if pool.is_none() {
                prices.default = price;
            }
        }
        if prices.pools.len() > MAX_POOLS {
            return Err(format!("has {} pools, at most {MAX_POOLS} are allowed", prices.pools.len()));
        }
        Ok(prices)
    }

    /// The price in this pool.
    pub fn of(&self, pool: &str) -> Price {
        self.pools.get(pool).copied().unwrap_or(self.default)
    }

    /// Whether all prices are 0.
    pub fn is_free(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_free() {
            return Ok(());
        }
        write!(f, "{}/{}", self.default.gib_hour, self.default.core_hour)?;
        self.pools
            .iter()
            .try_for_each(|(pool, price)| write!(f, ", {pool}={}/{}", price.gib_hour, price.core_hour))
    }
}

fn read(text: &str) -> Option<Price> {
    let (memory, cpu) = text.split_once('/')?;
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|price| (0.0..=HIGHEST_PRICE).contains(price));
    Some(Price { gib_hour: number(memory)?, core_hour: number(cpu)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_as_they_are_written() {
        let prices = Prices::parse("0.005/0.04, big = 0.006/0.05").unwrap();
        assert_eq!(prices.of("big"), Price { gib_hour: 0.006, core_hour: 0.05 });
        assert_eq!(prices.of("unheard of"), Price { gib_hour: 0.005, core_hour: 0.04 });
        assert_eq!(Prices::parse(&prices.to_string()), Ok(prices));
        assert!(Prices::parse("").unwrap().is_free());
    }

    #[test]
    fn a_price_that_is_none_is_named() {
        for bad in ["1", "1/x", "-1/1", "NaN/1", "inf/1", "big=1", "1/2, 3/4", "a=1/2, a=3/4"] {
            assert!(Prices::parse(bad).unwrap_err().contains(bad.rsplit(", ").next().unwrap()), "{bad}");
        }
    }
}
