//! What holds for every order of openings, ends, checks, lists and restarts.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn no_host_is_shared_or_unlisted(
        steps in prop::collection::vec((0_u8..8, 0_u8..12, any::<u8>()), 0..60),
        is_limit_fixed in any::<bool>(),
    ) {
        let lists = ["\"a\"", "\"a\", \"b\"", "\"b\", \"c\", \"d\"", "\"d\", \"a\""];
        let pool = |n: u8| {
            let at_once = if is_limit_fixed { 2 } else { 1 + n / 64 };
            format!("hosts = [{}]\nat_once = {at_once}\nreuse_opportunity_time = 60\n", lists[n as usize % 4])
        };
        let mut yard = Yard::new(&pool(1));
        let mut opened = std::collections::HashSet::new();
        for (step, ticket, how) in steps {
            let name = ticket.to_string();
            let before = yard.held();
            match step {
                0 | 1 if opened.insert(ticket) => yard.open(&name, ["", "s", "t"][how as usize % 3]),
                0..=2 => {
                    yard.close(&name);
                    opened.remove(&ticket);
                }
                3 => yard.check(|host| how >> (host.as_bytes()[0] - b'a') & 1 == 1),
                4 => yard.list(&pool(how)),
                5 => yard.restart(),
                // the pool has lost its hosts, or gets machines from elsewhere
                6 => yard.list(["at_once = 2\n", "upstream = \"http://127.0.0.1:1\"\n"][how as usize % 2]),
                _ => {
                    yard.now.steady_ms += u64::from(how) * 1000;
                    yard.look();
                }
            }
            let held = yard.held();
            let hosts: std::collections::HashSet<&String> = held.iter().map(|(_, host)| host).collect();
            prop_assert_eq!(hosts.len(), held.len(), "{:?}", held);
            prop_assert!(!is_limit_fixed || held.len() <= 2, "{:?}", held);
            let lost = before.iter().find(|was| !held.contains(was) && opened.contains(&was.0.parse().unwrap()));
            prop_assert_eq!(lost, None, "a host that is out stays with its ticket");
            let holders = yard.holders();
            let one_each: std::collections::HashSet<&TicketId> = holders.iter().collect();
            prop_assert_eq!(one_each.len(), holders.len(), "a ticket has two hosts: {:?}", holders);
            let listed = yard.site.pools.now();
            let new = held.iter().find(|has| !before.contains(has) && !listed.pool("h").unwrap().hosts.lists(&has.1));
            prop_assert_eq!(new, None);
        }
        // nothing is lost: with all hosts there, every ticket gets one in the end
        yard.list("hosts = [\"a\", \"b\", \"c\", \"d\"]\n");
        for _ in 0..40 {
            yard.now.steady_ms += 20 * 60_000;
            yard.look();
            yard.check(|_| true);
            for ticket in yard.open_tickets().into_iter().filter(Ticket::is_ready) {
                yard.close(ticket.id.as_str());
            }
        }
        prop_assert_eq!(yard.open_tickets(), vec![]);
    }
}
