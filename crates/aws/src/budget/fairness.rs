//! Tests how much a namespace that calls all the time costs the others.

use std::cell::RefCell;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use causeway_runtime::tenant::on_behalf_of;

use super::Budget;

/// The calls that create a balancer with two target groups, a listener and two rules.
const CREATION: [&str; 9] = [
    "CreateLoadBalancer",
    "DescribeTags",
    "CreateTargetGroup",
    "CreateTargetGroup",
    "CreateListener",
    "CreateRule",
    "CreateRule",
    "ModifyLoadBalancerAttributes",
    "DescribeTargetHealth",
];

/// Makes these calls for a namespace, over and over, and logs each.
async fn keep_busy(budget: &Budget, namespace: &str, operations: &[&'static str], done: &RefCell<Vec<String>>) {
    on_behalf_of(namespace, async {
        loop {
            for operation in operations {
                if budget.wait(operation).await.is_some() {
                    done.borrow_mut().push(namespace.to_owned());
                } else {
                    sleep(Duration::from_millis(200)).await;
                }
            }
        }
    })
    .await;
}

/// Measures how these namespaces disturb the calls of another one, after they had a minute to use up all tokens: how
/// many of their calls came in between, and how long it took.
async fn measure_disturbance(
    namespaces: &[&str],
    theirs: &[&'static str],
    calls: &[&'static str],
) -> (usize, Duration) {
    let budget = Budget::aws();
    let done = RefCell::default();
    // As many reconciles and followers of targets as the operator runs.
    let all = namespaces.iter().flat_map(|namespace| (0..25).map(move |_| *namespace));
    let attack = join_all(all.map(|namespace| keep_busy(&budget, namespace, theirs, &done)));
    let victim = async {
        sleep(Duration::from_mins(1)).await;
        let before = done.borrow().len();
        let begun = Instant::now();
        on_behalf_of("calm", async {
            for operation in calls {
                budget.wait(operation).await.expect("its first one of the kind");
            }
        })
        .await;
        (done.borrow().len() - before, begun.elapsed())
    };
    tokio::select! {
        _ = attack => unreachable!("it has no end"),
        outcome = victim => outcome,
    }
}

const ALL: [&str; 6] =
    ["CreateLoadBalancer", "RegisterTargets", "DescribeTags", "ModifyRule", "DescribeRules", "DeregisterTargets"];

#[tokio::test(start_paused = true)]
async fn a_busy_namespace_delays_no_targets_or_balancers_of_others() {
    for (attackers, target, balancer) in [(&["busy"][..], 2, 12), (&["busy", "busier", "busiest"], 6, 40)] {
        let (between, took) = measure_disturbance(attackers, &ALL, &["RegisterTargets"]).await;
        println!(
            "» beside {} busy namespaces a target waits {took:?}, {between} calls of theirs go first",
            attackers.len()
        );
        assert!(between <= target, "{between} calls before one target");
        let (between, took) = measure_disturbance(attackers, &ALL, &CREATION).await;
        println!("» beside {} busy namespaces a new balancer waits {took:?} in all", attackers.len());
        assert!(between <= balancer, "{between} calls before a new balancer");
        // The clock of this test moves only during these waits.
        assert!(took <= Duration::from_secs(2), "{took:?}");
    }
}

/// A reconcile that waits for a new balancer occupies one of the places for reconciles.
#[tokio::test(start_paused = true)]
async fn namespaces_that_all_want_new_balancers_leave_places_to_others() {
    let budget = Budget::aws();
    let names: Vec<String> = (0..16).map(|number| format!("busy-{number}")).collect();
    let create = |name: &String| {
        let (budget, name) = (budget.clone(), name.clone());
        async move { on_behalf_of(&name, budget.wait("CreateLoadBalancer")).await }
    };
    // First all tokens that are there are taken.
    for name in names.iter().cycle().take(40) {
        let _ = create(name).now_or_never();
    }
    let begun = Instant::now();
    let waits = join_all(names.iter().map(create)).await;
    let let_through = waits.iter().flatten().count();
    assert_eq!(let_through, 2, "{waits:?}");
    assert!(begun.elapsed() <= Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_alone_has_the_whole_rate() {
    let budget = Budget::aws();
    let begun = Instant::now();
    on_behalf_of("alone", async {
        for _ in 0..74 {
            budget.wait("RegisterTargets").await.expect("it comes soon");
        }
    })
    .await;
    // A burst of 18, of which 4 are kept for others, and then 4 a second.
    let seconds = begun.elapsed().as_secs_f64();
    assert!((14.0..=15.5).contains(&seconds), "{seconds}");
}
