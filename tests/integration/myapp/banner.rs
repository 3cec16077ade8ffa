//! The banner reaches the log as it was written, whatever it looks like to a shell or to the kubelet.

use serde_json::json;

use super::{IMAGE, prints, running};
use crate::support::{Operator, Scene};

const NASTY: &str = "\"; rm -rf / $(HOME) $$(HOME) ${X} `id` %s \\n 'q' \n second line 🚀 ";

#[tokio::test]
async fn the_banner_is_printed_exactly_as_it_was_written() {
    let scene = Scene::new("banner").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "nasty", json!({ "image": IMAGE, "banner": NASTY })).await;
    prints(&scene, "nasty-pod", &format!("{NASTY}\n")).await;
}

#[tokio::test]
async fn empty_banners_and_banners_like_options_are_printed() {
    let scene = Scene::new("banner").await;
    let _operator = Operator::start(&scene).await;
    for (name, banner) in [("option", "-n --help"), ("empty", "")] {
        running(&scene, name, json!({ "image": IMAGE, "banner": banner })).await;
        prints(&scene, &format!("{name}-pod"), &format!("{banner}\n")).await;
    }
}

#[tokio::test]
async fn the_longest_banner_is_printed() {
    let scene = Scene::new("banner").await;
    let _operator = Operator::start(&scene).await;
    let banner = "$".repeat(32_768);
    running(&scene, "long", json!({ "image": IMAGE, "banner": banner })).await;
    prints(&scene, "long-pod", &format!("{banner}\n")).await;
}

#[tokio::test]
async fn a_command_runs_after_the_banner() {
    let scene = Scene::new("command").await;
    let _operator = Operator::start(&scene).await;
    let command = ["/bin/sh", "-c", "echo \"$0 $1\"; exec sleep 3600", "with two", "arguments;"];
    running(&scene, "commanded", json!({ "image": IMAGE, "banner": "first", "command": command })).await;
    prints(&scene, "commanded-pod", "first\nwith two arguments;\n").await;
}
