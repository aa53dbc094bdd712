//! The public head of an object, which belongs to the consumer and to layers between.

use ndk_abi::status::STATUS_SUCCESS;

use crate::kit::{FastRegion, Pair, World, complain};

/// NDK_OBJECT_HEADER: consumers and layers may replace the dispatch pointer and use the reserved words; the provider
/// neither reads nor writes them again.
// Shows S111.
#[test]
fn the_head_belongs_to_the_consumer() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.passive.pd, 1, true);
    for side in [&pair.active, &pair.passive] {
        let heads = [side.pd.take_head(), side.qp.take_head(), side.connector.take_head(), side.receive_cq.take_head()];
        assert!(heads.iter().all(|head| head.is_ours()));
    }
    let heads = [region.mr.take_head(), pair.listener.take_head(), pair.active.qp.take_head()];
    region.register(&pair.passive, 0);
    pair.message(1, true);
    pair.passive.expect_receive(1, STATUS_SUCCESS);
    pair.active.disconnect();
    assert!(heads.iter().all(|head| head.is_ours()), "the provider wrote to a head");
    region.close();
    pair.close();
}

/// Until the close has been completed the head is the consumer's, also inside of the completion: a layer that has
/// interposed keeps there what it needs to pass the completion on.
// Shows S111.
#[test]
fn the_head_lasts_until_the_close_is_complete() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let side = pair.active;
    let heads = [side.qp.take_head(), side.pd.take_head(), side.receive_cq.take_head(), side.connector.take_head()];
    let closes = [side.qp.close(), side.pd.close(), side.receive_cq.close()];
    for (head, close) in heads.iter().zip(&closes) {
        assert!(close.pended() && head.is_ours());
        let head = *head;
        close.completion.on_call(move |_| {
            if !head.is_ours() {
                complain("the head is gone".to_owned());
            }
        });
    }
    side.connector.close_now();
    closes.iter().for_each(|close| close.succeed());
    side.initiator_cq.close_now();
    pair.passive.close();
    pair.listener.close_now();
}
