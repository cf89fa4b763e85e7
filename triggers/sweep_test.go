package triggers

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// TestTheSweepKeepsABindingInACursorThatItJoinsDuringTheSweep changes a binding while the sweep waits for another
// binding. The sweep visits the bindings in random order, so the test is repeated.
func TestTheSweepKeepsABindingInACursorThatItJoinsDuringTheSweep(t *testing.T) {
	t.Parallel()
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			pod := hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod", JqFilter: ".metadata.labels"}
			c := followCluster(t, func(tx *store.Tx) error {
				if err := saveBinding(tx, "slow", "maps", store.Kubernetes, hook.KubernetesBinding{Name: "maps", APIVersion: "v1", Kind: "ConfigMap"}, 1); err != nil {
					return err
				}
				return saveBinding(tx, "web", "pods", store.Kubernetes, pod, 1)
			}, "configmaps")
			c.ready("web")
			synctest.Wait()
			pod.JqFilter = ".spec"
			c.update(func(tx *store.Tx) error { return saveBinding(tx, "web", "pods", store.Kubernetes, pod, 2) })
			c.ready("web")
			c.server.allow("configmaps")
			c.ready("slow")
			synctest.Wait()
			if owners := c.owners(".spec"); len(owners) != 1 {
				t.Errorf("the cursor has the owners %v, want the binding that has joined it", owners)
			}
		})
	}
}

func TestAnEventIsNotDeliveredToABindingThatNoLongerSelectsTheObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pod := hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod", Events: []string{"Added"}}
		c := followCluster(t, func(tx *store.Tx) error {
			return errors.Join(saveBinding(tx, "db", "pods", store.Kubernetes, pod, tx.Epoch()), saveBinding(tx, "web", "pods", store.Kubernetes, pod, tx.Epoch()))
		})
		c.ready("db")
		c.ready("web")
		pod.Namespaces.Names = []string{"other"}
		c.update(func(tx *store.Tx) error { return saveBinding(tx, "web", "pods", store.Kubernetes, pod, tx.Epoch()) })
		c.ready("web")
		synctest.Wait()
		c.server.add("ns", "a")
		synctest.Wait()
		c.server.add("other", "x")
		synctest.Wait()
		want := []string{"db: Added a", "db: Added x", "web: Added x"}
		slices.Sort(c.raised)
		if diff := cmp.Diff(want, c.raised); diff != "" {
			t.Errorf("raised (-want +got):\n%s", diff)
		}
		if owners := c.owners(""); len(owners) != 1 {
			t.Errorf("the cursor of all pods has the owners %v", owners)
		}
	})
}

// TestABindingStaysInTheCursorOfAClosedViewThatItFollowsAgain closes a view late, when the next monitor of the same
// binding has already joined it.
func TestABindingStaysInTheCursorOfAClosedViewThatItFollowsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pod := hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod"}
		c := followCluster(t, func(tx *store.Tx) error { return saveBinding(tx, "web", "pods", store.Kubernetes, pod, tx.Epoch()) })
		c.ready("web")
		if err := c.forget(t.Context(), []closedView{{allPods, owner(graph.Subject{Module: "web", Hook: "h", Binding: "pods"})}}); err != nil {
			t.Fatal(err)
		}
		if owners := c.owners(""); len(owners) != 1 {
			t.Errorf("the cursor has the owners %v, want the binding", owners)
		}
	})
}
