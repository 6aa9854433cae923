//! Messages that an agent of 0.2.0 sent, recorded on its way to a server of 0.2.0.

use pb::agent_message::Message;
use plimsoll_proto::fixtures::recorded as decoded;

use super::*;
use crate::runtime::skipped_facts::SkippedFacts;

#[test]
fn messages_of_0_2_0_are_understood() {
    let predict = decoded("0a130a03612f621a047a6c696242067838365f3634");
    assert_eq!(sizing::ask(predict).unwrap().0.package, "zlib");
    let judge = "0a03743a3222317669727475616c206d656d6f7279206578686175737465643a2043616e6e6f7420616c6c6f63617465206d656d6f72790a";
    assert!(verdicts::question(decoded(judge)).unwrap().log_tail.starts_with("virtual memory"));
    for (hex, by, label) in [
        ("0a001001", pb::GroupBy::Package, ""),
        ("0a001009", pb::GroupBy::RefClass, ""),
        ("0a00100b220178", pb::GroupBy::Label, "x"),
    ] {
        let question = filter::question(decoded(hex)).unwrap();
        assert_eq!((question.group_by, question.group_label.as_str()), (by, label));
    }
    for (hex, order) in [
        ("0a02300310642002", pb::AttemptOrder::Need),
        ("0a0010642001", pb::AttemptOrder::Waste),
        ("0a02680910642004", pb::AttemptOrder::Oldest),
    ] {
        let list: pb::ListAttemptsRequest = decoded(hex);
        paging::Page::read(&list).unwrap();
        filter::filter(list.filter.clone()).unwrap();
        assert_eq!(list.order(), order);
    }
    let mut skipped = SkippedFacts::default();
    let hello = "0a450a03743a31121a30314d384b5a5a33563443563652573858574e59364e525639351a130a03612f621a047a6c69624206783836\
                 5f3634200130023a0040e49efebfa2346001";
    let finish = "1a280a03743a32100120022a020803321708a01610808020180020002880e00748005000580060005001";
    let (Some(Message::Hello(hello)), Some(Message::Finish(finish))) =
        (decoded::<pb::AgentMessage>(hello).message, decoded::<pb::AgentMessage>(finish).message)
    else {
        panic!("a hello and a finish")
    };
    let opened = delivery::hello(hello, &mut skipped).unwrap();
    let ended = delivery::finish(&finish, &mut skipped).unwrap();
    assert_eq!((opened.source, ended.exit), (pb::Source::CgroupV1, Some(Exit::Code(3))));
    assert_eq!((ended.totals.oom_origin, skipped.fields().len()), (None, 0));
}
