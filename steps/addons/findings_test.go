package addons

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

func TestFirstAddonWithAnIDStays(t *testing.T) {
	t.Parallel()
	results := []store.RepositoryResult{
		{URL: "one", Addons: []store.AddonResult{
			{Entry: "alpha", ID: "X", Name: "alpha", Version: "1.0.0"},
			{Entry: "broken", Reason: string(api.LoadingError)},
			{Entry: "zeta", ID: "X", Name: "zeta", Version: "2.0.0"},
		}},
		{URL: "two", Addons: []store.AddonResult{{Entry: "alpha", ID: "X", Name: "alpha", Version: "1.0.0"}}},
	}
	for range 2 { // a step that runs again after an interruption has the same result
		markDuplicates(results)
	}
	var got []string
	for _, r := range results {
		for _, a := range r.Addons {
			got = append(got, a.Entry+" "+a.Reason)
		}
	}
	want := []string{
		"alpha ", "broken LoadingError", "zeta ConflictInSpecifiedRepositories", "alpha ConflictInSpecifiedRepositories",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if want := api.DuplicateMessage("one", "alpha", "1.0.0"); results[1].Addons[0].Message != want {
		t.Errorf("got %q, want %q", results[1].Addons[0].Message, want)
	}
}

func TestConfigurationsAreProcessedOrRestoredWhenTheyNeedIt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	ready := store.Configuration{UID: "u", Generation: 2, Phase: store.PhaseReady}
	failed := store.Configuration{UID: "u", Generation: 2, Phase: store.PhaseFailed}
	planned, due := failed, failed
	planned.Retry, due.Retry = now.Add(time.Second), now
	live := func(uid string, generation, observed int64, phase api.Phase, finalizers ...string) *api.Configuration {
		c := &api.Configuration{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: generation, Finalizers: finalizers}}
		c.UID, c.Status.Phase, c.Status.ObservedGeneration = metav1.ObjectMeta{UID: "u"}.UID, phase, observed
		if uid != "u" {
			c.UID = "other"
		}
		return c
	}
	for name, c := range map[string]struct {
		known store.Configuration
		live  *api.Configuration
		wants string
	}{
		"new":                          {store.Configuration{}, live("u", 1, 0, ""), "round"},
		"Ready":                        {ready, live("u", 2, 2, api.Ready, api.Finalizer), ""},
		"Ready and changed":            {ready, live("u", 3, 2, api.Ready, api.Finalizer), "round"},
		"Ready and created again":      {ready, live("other", 2, 2, api.Ready, api.Finalizer), "round"},
		"Ready without finalizer":      {ready, live("u", 2, 2, api.Ready, "other"), addFinalizer},
		"Ready and forged":             {ready, live("u", 2, 2, api.Failed, api.Finalizer), writeStatus},
		"Ready and cleared":            {ready, live("u", 2, 0, ""), addFinalizer + ", " + writeStatus},
		"forged Ready":                 {failed, live("u", 2, 2, api.Ready, api.Finalizer), writeStatus},
		"forged Ready, to be tried":    {due, live("u", 2, 2, api.Ready, api.Finalizer), "round"},
		"forged Ready, never seen":     {store.Configuration{}, live("u", 2, 2, api.Ready, api.Finalizer), "round"},
		"Failed for good":              {failed, live("u", 2, 2, api.Failed, api.Finalizer), ""},
		"Failed, to be tried again":    {planned, live("u", 2, 2, api.Failed, api.Finalizer), ""},
		"Failed, to be tried now":      {due, live("u", 2, 2, api.Failed, api.Finalizer), "round"},
		"Pending when it was stopped":  {store.Configuration{UID: "u", Generation: 2, Phase: store.PhasePending}, live("u", 2, 2, api.Pending, api.Finalizer), "round"},
		"Failed, its status is behind": {failed, live("u", 2, 1, api.Failed, api.Finalizer), writeStatus},
	} {
		var got []string
		for _, effect := range restorations(c.known, c.live, nil) {
			got = append(got, effect.Kind)
		}
		if needsNoRound(c.known, c.live, now) == "" {
			got = []string{"round"}
		}
		if all := strings.Join(got, ", "); all != c.wants {
			t.Errorf("%s: needs %q, want %q", name, all, c.wants)
		}
	}
}

func TestStatusThatIsTooLargeKeepsItsFailures(t *testing.T) {
	t.Parallel()
	repository := api.RepositoryStatus{URL: "u", Status: api.ConditionFailed}
	for range 20_000 {
		repository.Addons = append(repository.Addons, api.AddonStatus{
			Name: strings.Repeat("n", 50), Version: "1.0.0", Status: api.ConditionReady, Message: strings.Repeat("ä", 200),
		})
	}
	repository.Addons = append(repository.Addons, api.AddonStatus{Name: "failed", Status: api.ConditionFailed})
	got := fit(api.Status{Phase: api.Failed, Repositories: []api.RepositoryStatus{repository}}, largestStatus)
	if n := sizeOf(got); n > largestStatus+1024 {
		t.Errorf("the status has %d bytes", n)
	}
	if got.Repositories[0].Addons[0].Name != "failed" || !strings.Contains(got.Repositories[0].Message, "addons are not listed") {
		t.Errorf("got %+v", got.Repositories[0].Addons[0])
	}
}

func TestErrorsForATooLargeStatusAreRecognized(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":               {nil, false},
		"another error":          {apierrors.NewInternalError(errors.New("etcdserver: no leader")), false},
		"limit of the request":   {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"limit of etcd":          {apierrors.NewInternalError(errors.New("etcdserver: request is too large")), true},
		"limit of etcd's client": {apierrors.NewInternalError(errors.New("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2146028 vs. 2097152)")), true},
	} {
		if got := isTooLarge(c.err); got != c.want {
			t.Errorf("%s: too large %t, want %t", name, got, c.want)
		}
	}
}

func TestAStatusFitsInAnyRoom(t *testing.T) {
	t.Parallel()
	var status api.Status
	for i := range 1000 {
		status.Repositories = append(status.Repositories, api.RepositoryStatus{
			URL: fmt.Sprintf("https://h/%d/%s", i, strings.Repeat("u", 900)), Reason: api.FetchingIndexError,
			Message: strings.Repeat("m", 900), Addons: []api.AddonStatus{},
		})
	}
	status.Repositories[0].URL = strings.Repeat("u", 800<<10)
	for room := largestStatus; room >= smallestStatus; room /= 2 {
		got := fit(status, room)
		const note = 200
		if size := sizeOf(got); size > room+note {
			t.Errorf("the status has %d bytes, the room is %d", size, room)
		}
		last := got.Repositories[len(got.Repositories)-1]
		if left := fmt.Sprintf("(%d more repositories are not listed", 1000-len(got.Repositories)); len(got.Repositories) < 1000 && !strings.Contains(last.Message, left) {
			t.Errorf("the last message is %q, want it to contain %q", last.Message, left)
		}
	}
	if len(status.Repositories) != 1000 || len(status.Repositories[0].URL) != 800<<10 {
		t.Error("the status itself was changed")
	}
}

func TestLimitsOfTheRegistryAreReportedBesideOtherProblems(t *testing.T) {
	t.Parallel()
	r := &Runtime{DB: storetest.Memory(t)}
	offer(t, r.DB, "c")
	known, err := r.record(api.Identity{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	content := registry.ContentName("c")
	addon := func(id, name string) store.AddonResult {
		return store.AddonResult{Entry: name, EntryVersion: "1.0.0", Content: content, ID: id, Name: name, Version: "1.0.0"}
	}
	results := []store.RepositoryResult{
		{URL: "https://h/absent", Reason: string(api.FetchingIndexError), Message: "bad response code: 404"},
		{URL: "https://h/long", Addons: []store.AddonResult{addon(strings.Repeat("x", 2000), "long"), addon("A", "a"), addon("B", "a")}},
	}
	many := store.RepositoryResult{URL: "https://h/many"}
	for i := range registry.MaxAddons {
		many.Addons = append(many.Addons, addon(fmt.Sprint("many", i), fmt.Sprint("many", i)))
	}
	if err := r.DB.Update(func(tx *store.Tx) error {
		for i, result := range append(results, many) {
			if err := registry.SaveResult(tx, registry.Cluster, "c", known.Round, i, result); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, phase, _ := register(t, r, "c"); phase != store.PhaseFailed {
		t.Errorf("it is %s", phase)
	}
	_, found, err := r.results(api.Identity{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, result := range found {
		if result.Reason != "" {
			problems = append(problems, result.Reason)
		}
		for _, addon := range result.Addons {
			if addon.Reason != "" {
				problems = append(problems, addon.Name+": "+addon.Reason)
			}
		}
	}
	last := registry.MaxAddons - 3 // the first repository has three addons
	if diff := cmp.Diff([]string{
		string(api.FetchingIndexError), "long: " + string(api.RegisteringError), "a: " + string(api.ConflictInSpecifiedRepositories),
		fmt.Sprintf("many%d: %s", last, api.RegisteringError),
	}, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
