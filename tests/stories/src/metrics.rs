//! The promise to whoever runs it: figures that tell how memory is doing, and nothing of what was said.

use skymem_harness::story;

#[test]
fn metrics_tell_what_layers_have_still_to_learn_and_never_what_was_said() {
    story(async |server| {
        server.says("private", "The heron flies at midnight.", "Noted.").await;
        server.tells("private", "user", "And the osprey at noon.").await;
        server.context("private", "When does the heron fly?").await;
        server.recall("When does the osprey fly?").await;

        let metrics = server.get("/metrics").await.text;

        for line in [
            "skymem_observe_behind{layer=\"episodes\"} 1",
            "skymem_parked{layer=\"episodes\"} 0",
            "skymem_context_seconds_bucket{stage=\"recall\"",
            "skymem_recall_seconds_bucket{stage=\"total\"",
        ] {
            assert!(metrics.contains(line), "{line} is not in:\n{metrics}");
        }
        let metrics = metrics.to_lowercase();
        assert!(["private", "heron", "osprey", "midnight"].iter().all(|word| !metrics.contains(word)), "{metrics}");
    });
}
