//! Fault rules for posts: the post returns the status, and the queue pair stays usable.

use ndk_abi::{
    ndkpi::NDK_OP_FLAG_DEFER,
    status::{NTSTATUS, STATUS_CONNECTION_INVALID, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS},
};

use crate::{
    bind::READ,
    fast_register::REMOTE,
    kit::{Buffer, FastRegion, Pair, World},
};

/// What each rule has counted: passed, fired.
fn counts(world: &World) -> Vec<(u64, u64)> {
    let rules = (0..).map_while(|place| world.provider.fault_rule(place));
    rules.map(|rule| (rule.Passed, rule.Fired)).collect()
}

/// A kind of post, and its name in a rule.
type Post<'a> = (&'static str, Box<dyn Fn() -> NTSTATUS + 'a>);

// Shows S1715.
#[test]
fn each_kind_of_post_fails_as_its_rule_says_and_can_be_tried_again() {
    let world = World::new();
    world.provider.pass_posts();
    let pair = Pair::new(&world.adapter);
    let side = &pair.active;
    let (local, region) = (Buffer::full(&side.pd, 1), FastRegion::new(&world.adapter, &side.pd, 1, true));
    let (target, window) = (Buffer::full(&pair.passive.pd, 1), side.pd.create_mw().expect("a window"));
    let (qp, part) = (side.qp, local.sge(0, 64));
    let kinds: [Post<'_>; 8] = [
        ("receive", Box::new(|| pair.passive.qp.receive(1, &[target.sge(0, 64)]))),
        ("send", Box::new(|| qp.send(1, &[part], 0))),
        ("read", Box::new(|| qp.read(1, &[part], target.base, target.token, 0))),
        ("write", Box::new(|| qp.write(1, &[part], target.base, target.token, 0))),
        ("fast-register", Box::new(|| region.post(side, 1, REMOTE))),
        ("invalidate", Box::new(|| qp.invalidate(1, &region.mr, 0))),
        ("bind", Box::new(|| qp.bind(1, &window, &local.mr, (local.base, 8), READ))),
        ("invalidate", Box::new(|| qp.invalidate_window(1, &window, 0))),
    ];
    for (name, post) in &kinds {
        println!("{name}");
        for (text, status) in [
            ("STATUS_INSUFFICIENT_RESOURCES", STATUS_INSUFFICIENT_RESOURCES),
            ("STATUS_CONNECTION_INVALID", STATUS_CONNECTION_INVALID),
        ] {
            let rule = format!("on post where operation={name} times 1 do fail {text}");
            world.provider.set_fault_rules(&rule).unwrap();
            assert_eq!(post(), status);
            assert_eq!(counts(&world), [(1, 1)]);
        }
        assert_eq!(post(), STATUS_SUCCESS);
        assert_eq!(counts(&world), [(2, 1)]);
        match *name {
            "receive" => {}
            "send" => {
                side.expect(1, STATUS_SUCCESS);
                pair.passive.expect_receive(1, STATUS_SUCCESS);
            }
            _ => _ = side.expect(1, STATUS_SUCCESS),
        }
    }
    drop(kinds);
    window.close_now();
    region.close();
    local.close();
    target.close();
    pair.close();
}

/// As a post that the device refuses by itself does.
// Shows S1715.
#[test]
fn a_post_that_a_rule_fails_starts_the_deferred_ones_before_it() {
    let world = World::new();
    world.provider.pass_posts();
    let pair = Pair::new(&world.adapter);
    world.provider.set_fault_rules("on post where operation=send after 1 do fail STATUS_CONNECTION_INVALID").unwrap();
    assert_eq!(pair.passive.qp.receive(7, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(1, &[], NDK_OP_FLAG_DEFER), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(2, &[], NDK_OP_FLAG_DEFER), STATUS_CONNECTION_INVALID);
    pair.active.expect(1, STATUS_SUCCESS);
    pair.passive.expect_receive(7, STATUS_SUCCESS);
    pair.close();
}

// Shows S1715.
#[test]
fn posts_of_programs_and_of_devices_without_fault_injection_pass_no_point() {
    let world = World::new();
    world.provider.set_fault_rules("on post do fail STATUS_CONNECTION_INVALID").unwrap();
    let before = world.open(2, 1).unwrap();
    let old = Pair::new(&before);
    world.provider.pass_posts();
    let [program, kernel] = [world.open_for(2, 1, 7), world.open(2, 1)].map(Result::unwrap);
    let (of_program, of_kernel) = (Pair::new(&program), Pair::new(&kernel));
    for pair in [&old, &of_program] {
        assert_eq!(pair.active.qp.receive(1, &[]), STATUS_SUCCESS);
    }
    assert_eq!(counts(&world), [(0, 0)]);
    assert_eq!(of_kernel.active.qp.receive(1, &[]), STATUS_CONNECTION_INVALID);
    assert_eq!(counts(&world), [(1, 1)]);
    for (pair, adapter) in [(old, before), (of_program, program), (of_kernel, kernel)] {
        pair.close();
        world.close_adapter(adapter);
    }
}
