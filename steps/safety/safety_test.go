package safety

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/steps/oncelog"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// blocked is an Observer that records the releases whose deletion was blocked.
type blocked struct{ releases []string }

func (b *blocked) DeletionBlocked(releases []string, _ string) { b.releases = releases }

// configMap is a ConfigMap for tests.
type configMap struct{}

func (configMap) Name() string { return "ConfigMap a/b" }

func newChecks(o Options, observer Observer) *Checks {
	return New(o, oncelog.New(zerolog.Nop()), configMap{}, observer)
}

// releasesNamed returns releases with these names.
func releasesNamed(names ...string) (all []helm.Summary) {
	for _, name := range names {
		all = append(all, helm.Summary{Name: name})
	}
	return all
}

func TestKeptReleasesAreAProblemUntilTheyAreAllowed(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	checks := newChecks(Options{}, &blocked{})
	discover := func() (purge []string, problems []store.Problem) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			permission, err := Load(tx)
			if err != nil {
				return err
			}
			d := checks.Discovery(releasesNamed("web", "one", "two"), permission)
			purge = d.Purge([]string{"one", "two"})
			if err := SaveBlocked(tx, d.Blocked, permission.Allowed.At); err != nil {
				return err
			}
			problems, err = store.AllProblems(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return purge, problems
	}
	purge, problems := discover()
	if len(purge) != 0 || len(problems) != 1 || problems[0].Kind != store.BlockedDeletion ||
		problems[0].Error != "2 of 3 releases would be purged, so the safety check keeps them: one, two" ||
		strings.Join(problems[0].Command, " ") != "reload --allow-purge=2" {
		t.Errorf("purge %v, problems %+v", purge, problems)
	}
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.AllowedPurgeKey(), store.AllowedPurge{Releases: 2, At: tx.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	if purge, problems := discover(); len(purge) != 2 || len(problems) != 0 {
		t.Errorf("after it was allowed: purge %v, problems %+v", purge, problems)
	}
	if purge, problems := discover(); len(purge) != 0 || len(problems) != 1 {
		t.Errorf("the permission holds for more than one discovery: purge %v, problems %+v", purge, problems)
	}
}

func TestReleasesOfAddonsThatNobodyKnowsAreKeptAndShown(t *testing.T) {
	t.Parallel()
	releases := []helm.Summary{{Name: "old"}, {Name: "redis", State: helm.State{Addon: true}}, {Name: "web", State: helm.State{Addon: true}}, {Name: "own"}}
	d := newChecks(Options{IgnoreRelease: "own"}, &blocked{}).Discovery(releases, Permission{})
	if err := d.FindUnknown(t.Context(), module.Set{Modules: []module.Module{{Name: "web"}}}, releases); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"old"}, d.Unknown); diff != "" {
		t.Errorf("releases to purge: %s", diff)
	}
	if len(d.Blocked) != 1 || !strings.HasSuffix(d.Blocked[0].Error, ": redis") {
		t.Errorf("problems %+v, want one that names redis", d.Blocked)
	}
}

func TestNoMoreThanHalfOfAllReleasesAreDeletedWithoutPermission(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		going, releases, most int
		want                  bool
	}{
		{0, 0, 0, true},
		{1, 1, 0, false},
		{1, 2, 0, true},
		{2, 3, 0, false},
		{2, 4, 0, true},
		{3, 4, 2, false},
		{3, 4, 3, true},
		{4, 4, 5, true},
	} {
		if got := allowed(c.going, c.releases, c.most); got != c.want {
			t.Errorf("%d of %d, at most %d: %t", c.going, c.releases, c.most, got)
		}
	}
}

func TestDisabledModulesAreCheckedOnlyWithoutAConfigMapOfAPerson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		permission Permission
		going      int
		want       []string
	}{
		{Permission{Configured: true}, 2, []string{"a", "b"}},
		{Permission{}, 2, nil},
		{Permission{}, 1, []string{"a", "b"}},
		{Permission{OnlyHooks: true}, 2, nil},
		{Permission{OnlyHooks: true}, 1, []string{"a", "b"}},
	} {
		var observed blocked
		d := newChecks(Options{}, &observed).Discovery(releasesNamed("a", "b"), c.permission)
		got := d.Delete([]string{"a", "b"}, c.going)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
		if reported := len(observed.releases) > 0; reported != (c.want == nil) {
			t.Errorf("%+v: reported %t", c, reported)
		}
	}
}

func TestAProblemOfManyReleasesNamesSome(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range mostNamed + 5 {
		names = append(names, fmt.Sprint("r", i))
	}
	d := newChecks(Options{}, &blocked{}).Discovery(releasesNamed(names...), Permission{})
	d.Purge(names)
	if len(d.Blocked) != 1 || d.Blocked[0].More != 5 || strings.Contains(d.Blocked[0].Error, "r20") || !strings.Contains(d.Blocked[0].Error, "r19") {
		t.Errorf("problems %+v", d.Blocked)
	}
}
