package addons_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
	"addon-operator/internal/api"
	"addon-operator/store"
)

// A fixture has a real operator, and creates configurations that all offer the same addon.
type fixture struct {
	*testing.T
	at    dynamic.ResourceInterface
	index string
	env   operator.Environment
	p     *operator.Process
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := cluster.Launch(t, t.TempDir())
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	define(t, client)
	archive := packed(redis(nil))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			_, _ = w.Write(archive)
			return
		}
		_, _ = fmt.Fprint(w, "{apiVersion: v1, entries: {redis: [{version: 0.0.1}]}}")
	}))
	t.Cleanup(server.Close)
	a := &fixture{T: t, env: environmentOf(t, c), index: server.URL + "/index.yaml"}
	a.at = client.Resource(api.NamespacedResource).Namespace(a.env.Namespace)
	a.start()
	t.Cleanup(func() {
		a.p.Kill()
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", a.env.EndOfLog())
		}
	})
	return a
}

func (a *fixture) start() {
	a.Helper()
	p, err := a.env.Start("ADDON_OPERATOR_ADDONS_DEVELOP_MODE=yes", "ADDON_OPERATOR_ADDONS_RETRY=0", "ADDON_OPERATOR_ADDONS_RESYNC=0s")
	if err != nil {
		a.Fatal(err)
	}
	a.p = p
}

// atOnce calls the function do once for each name, all in parallel, and waits until all calls have returned.
func (a *fixture) atOnce(names []string, do func(name string) error) {
	a.Helper()
	var running sync.WaitGroup
	errs := make([]error, len(names))
	for i, name := range names {
		running.Go(func() { errs[i] = do(name) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		a.Fatal(err)
	}
}

func (a *fixture) create(name string) error {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.Group + "/" + api.Version, "kind": api.NamespacedKind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"repositories": []any{map[string]any{"url": a.index}}},
	}}
	_, err := a.at.Create(a.Context(), o, metav1.CreateOptions{})
	return err
}

func (a *fixture) delete(name string) error {
	return a.at.Delete(a.Context(), name, metav1.DeleteOptions{})
}

func (a *fixture) giveUp(name string) error {
	_, err := a.at.Patch(a.Context(), name, types.MergePatchType, []byte(`{"spec": {"repositories": []}}`), metav1.PatchOptions{})
	return err
}

// await waits until the function wanted returns true for the existing configurations, and returns these
// configurations by name.
func (a *fixture) await(what string, wanted func(all map[string]*api.Configuration) bool) (all map[string]*api.Configuration) {
	a.Helper()
	if err := wait.PollUntilContextTimeout(a.Context(), 20*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := a.at.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		all = map[string]*api.Configuration{}
		for _, o := range list.Items {
			text, err := o.MarshalJSON()
			c := new(api.Configuration)
			if err := errors.Join(err, json.Unmarshal(text, c)); err != nil {
				return false, err
			}
			all[c.Name] = c
		}
		return wanted(all), nil
	}); err != nil {
		for name, c := range all {
			a.Logf("%s: generation %d, status %+v", name, c.Generation, c.Status)
		}
		a.Fatalf("%s: %v", what, err)
	}
	return all
}

// winner waits until n configurations are processed, and returns the configuration that is Ready, and
// the others. It fails the test unless exactly one is Ready and the others conflict with it.
func (a *fixture) winner(round, n int) (winner string, losers []string) {
	a.Helper()
	all := a.await(fmt.Sprintf("round %d: the winner", round), func(all map[string]*api.Configuration) bool {
		for _, c := range all {
			if c.Status.ObservedGeneration != c.Generation || c.Status.Phase == api.Pending {
				return false
			}
		}
		return len(all) == n
	})
	for name, c := range all {
		if c.Status.Phase == api.Ready {
			if winner != "" {
				a.Fatalf("round %d: both %s and %s are Ready", round, winner, name)
			}
			winner = name
			continue
		}
		losers = append(losers, name)
	}
	for _, name := range losers {
		addon := all[name].Status.Repositories[0].Addons[0]
		if addon.Reason != api.ConflictWithAlreadyRegisteredAddon || !strings.Contains(addon.Message, "ConfigurationName: "+winner+",") {
			a.Fatalf("round %d: %s won and %s has %+v", round, winner, name, addon)
		}
	}
	if winner == "" {
		a.Fatalf("round %d: nobody won", round)
	}
	return winner, losers
}

// nothingLeft stops the operator and checks that its store has no configurations, addons or files of addons.
func (a *fixture) nothingLeft() {
	a.Helper()
	if err := a.p.Stop(); err != nil {
		a.Fatal(err)
	}
	db, err := store.OpenReadOnly(a.env.Store(), store.Options{LockWait: time.Minute})
	if err != nil {
		a.Fatal(err)
	}
	defer db.Close()
	if err := errors.Join(db.Check(), db.View(func(tx *store.Tx) error {
		for _, table := range []store.Table{store.Configurations, store.Addons, store.Contents, store.Charts} {
			for k := range tx.Range(store.At(table)) {
				a.Errorf("%s is left", k)
			}
		}
		return nil
	})); err != nil {
		a.Error(err)
	}
}

func none(all map[string]*api.Configuration) bool { return len(all) == 0 }

// TestCompetitionForAnIDHasOneWinnerWhoHandsItOver creates two configurations with the same addon ID at the same time.
// The configuration that loses must get the ID after the winner is deleted or drops the addon, even if this happens
// while no operator runs. The environment variable COMPETITIONS is the number of rounds.
func TestCompetitionForAnIDHasOneWinnerWhoHandsItOver(t *testing.T) {
	rounds := 8
	if text := os.Getenv("COMPETITIONS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("COMPETITIONS=%q is no number of rounds", text)
		}
		rounds = n
	}
	a := newFixture(t)
	names := []string{"one", "two"}
	won := map[string]int{}
	for round := range rounds {
		a.atOnce(names, a.create)
		winner, losers := a.winner(round, 2)
		won[winner]++
		restart, deleted := round%4 >= 2, round%2 == 0
		if restart {
			a.p.Kill()
		}
		handOver := a.giveUp
		if deleted {
			handOver = a.delete
		}
		if err := handOver(winner); err != nil {
			t.Fatal(err)
		}
		if restart {
			a.start()
		}
		what := fmt.Sprintf("round %d: %s gets the ID, restart %t, deleted %t", round, losers[0], restart, deleted)
		a.await(what, func(all map[string]*api.Configuration) bool {
			w, l := all[winner], all[losers[0]]
			handedOver := w == nil
			if !deleted {
				handedOver = w.Status.ObservedGeneration == w.Generation && w.Status.Phase == api.Ready && len(w.Status.Repositories) == 0
			}
			return handedOver && l.Status.ObservedGeneration == l.Generation && l.Status.Phase == api.Ready && l.Spec.ReprocessRequest >= 1
		})
		left := names
		if deleted {
			left = losers
		}
		a.atOnce(left, a.delete)
		a.await(fmt.Sprintf("round %d: all are deleted", round), none)
	}
	t.Logf("rounds: %d, won: %v", rounds, won)
	a.nothingLeft()
}

// TestManyConfigurationsWithTheSameAddonAreCreatedAndDeletedAtOnce creates and deletes many configurations with the
// same addon. If the configuration that owns the addon is deleted, the operator must reprocess all other
// configurations.
func TestManyConfigurationsWithTheSameAddonAreCreatedAndDeletedAtOnce(t *testing.T) {
	a := newFixture(t)
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("c%02d", i)
	}
	a.atOnce(names, a.create)
	winner, losers := a.winner(0, len(names))

	// Another configuration must get the addon, and no configuration must stay Pending.
	if err := a.delete(winner); err != nil {
		t.Fatal(err)
	}
	a.await("the owner is gone", func(all map[string]*api.Configuration) bool { return all[winner] == nil })
	a.await("all are processed again", func(all map[string]*api.Configuration) bool {
		for _, c := range all {
			if c.Spec.ReprocessRequest == 0 {
				return false
			}
		}
		return true
	})
	next, _ := a.winner(1, len(losers))
	t.Logf("%s won, then %s", winner, next)
	slices.Sort(losers)
	a.atOnce(losers, a.delete)
	a.await("all are deleted", none)
	a.nothingLeft()
}
