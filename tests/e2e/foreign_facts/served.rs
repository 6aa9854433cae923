//! All that is served, as the product says it: rpcs by the descriptor of the wire, paths by the routers. What is new there and has no
//! attack fails the test.

use plimsoll_proto::DESCRIPTORS;
use prost::Message as _;
use prost_types::FileDescriptorSet;

/// The routers, where each path stands in a call of `route`.
const ROUTERS: [&str; 2] = [
    include_str!("../../../server/app/src/door/http/mod.rs"),
    include_str!("../../../server/app/src/door/web/mod.rs"),
];
/// Paths that stand there by a name.
const NAMED: [(&str, &str); 4] = [
    ("BACKUP_PATH", "/admin/backup"),
    ("ADMIT_PATH", "/admit"),
    ("COLLECT_PATH", "/v1/collect"),
    ("XML_RPC_PATH", "/RPC2"),
];

/// `SERVICE/RPC` of all services but the standard ones.
pub(crate) fn rpcs() -> Vec<String> {
    let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
    // and KEDA's
    let ours = files.into_iter().filter(|file| ["plimsoll.v1", "externalscaler"].contains(&file.package()));
    let services = ours.flat_map(|file| file.service);
    let rpcs = services.flat_map(|service| {
        let name = service.name().to_owned();
        service.method.into_iter().map(move |method| format!("{name}/{}", method.name()))
    });
    let mut rpcs: Vec<String> = rpcs.collect();
    rpcs.sort();
    assert!(rpcs.len() >= 18, "{rpcs:?}");
    rpcs
}

/// Paths of both listeners.
pub(crate) fn paths() -> Vec<String> {
    let routes = ROUTERS.iter().flat_map(|text| text.split(".route(").skip(1));
    let mut paths: Vec<String> = routes
        .map(|route| {
            let handler = route.split(',').next().unwrap().trim();
            let named = NAMED.iter().find(|(name, _)| *name == handler).map(|(_, path)| *path);
            named.unwrap_or_else(|| handler.trim_matches('"')).to_owned()
        })
        .collect();
    paths.sort();
    assert!(paths.len() >= 20 && paths.iter().all(|path| path.starts_with('/')), "{paths:?}");
    paths
}
