package workflow_test

import (
	"testing"
	"testing/synctest"

	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// changed returns the event of a change of the given addons configuration.
func changed(configuration string) workflow.Event {
	return workflow.Event{On: addons.OnConfiguration, Subject: graph.Subject{Configuration: configuration}}
}

// found returns an outcome that reports the given facts.
func found(facts ...graph.Fact) workflow.Outcome { return workflow.Outcome{Facts: facts} }

func TestConfigurationThatHangsDelaysNeitherAnotherNorTheLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, lifecycle.Graph, addons.Graph)
		w.set("configuration-changed", returns(found(addons.Wanted)))
		w.set("fetch-repositories", returns(found(addons.AllFetched)))
		open := w.gate("fetch-repositories ns/hangs")
		w.start(changed("ns/hangs"))
		w.expect("configuration-changed ns/hangs", "fetch-repositories ns/hangs")
		w.raise(changed("c1"))
		w.expect("configuration-changed c1", "fetch-repositories c1", "lint-addons c1", "find-duplicates c1",
			"find-conflicts c1", "register-addons c1", "configuration-status c1")
		w.raise(workflow.Event{On: lifecycle.OnConfigMap})
		w.expect("configmap-changed")
		w.expectPending(graph.Subject{Configuration: "ns/hangs"}.Queue(), "fetch-repositories ns/hangs")
		open(found(addons.AllFetched), nil)
		w.expect("lint-addons ns/hangs", "find-duplicates ns/hangs", "find-conflicts ns/hangs", "register-addons ns/hangs",
			"configuration-status ns/hangs")
		w.expectAllEnded()
	})
}

func TestChangesOfAConfigurationThatIsProcessedAreOneMoreRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, lifecycle.Graph, addons.Graph)
		open := w.gate("configuration-changed c1")
		w.start(changed("c1"))
		w.raise(changed("c1"))
		w.raise(changed("c1"), changed("c2"), changed("c1"))
		w.expect("configuration-changed c1", "configuration-changed c2")
		w.set("configuration-changed c1", returns(workflow.Outcome{}))
		open(workflow.Outcome{}, nil)
		w.expect("configuration-changed c1")
		w.expectAllEnded()
	})
}

func TestQuarantineOfAConfigurationHoldsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, lifecycle.Graph, addons.Graph)
		w.set("configuration-changed", returns(found(addons.Wanted)))
		w.set("fetch-repositories", returns(found(addons.AllFetched)))
		w.gate("fetch-repositories kills")
		w.start(changed("kills"))
		w.crash()
		for range 2 {
			w.start()
			w.expect("fetch-repositories kills")
			w.crash()
		}
		w.start(changed("ns/kills"), workflow.Event{On: lifecycle.OnConfigMap})
		w.expectAny("configuration-changed ns/kills", "fetch-repositories ns/kills", "lint-addons ns/kills", "find-duplicates ns/kills",
			"find-conflicts ns/kills", "register-addons ns/kills", "configuration-status ns/kills", "configmap-changed")
		ids := w.expectQuarantined("fetch-repositories kills")
		w.raise(changed("kills"), changed("other"))
		w.expect("configuration-changed other", "fetch-repositories other", "lint-addons other", "find-duplicates other",
			"find-conflicts other", "register-addons other", "configuration-status other")
		w.expectHeld("configuration-changed kills")

		open := w.gate("fetch-repositories kills")
		if err := w.e.Release(ids[0], "me", ""); err != nil {
			t.Fatal(err)
		}
		w.expect("configuration-changed kills", "fetch-repositories kills")
		w.expectPending(graph.Subject{Configuration: "kills"}.Queue(), "fetch-repositories kills")
		open(found(addons.AllFetched), nil)
		w.expect("lint-addons kills", "find-duplicates kills", "find-conflicts kills", "register-addons kills",
			"configuration-status kills")
		w.expectQuarantined()
		w.expectAllEnded()
	})
}
