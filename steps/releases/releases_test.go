package releases

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/helm"
	"addon-operator/steps/oncelog"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func update(t *testing.T, db *store.DB, do func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(do); err != nil {
		t.Fatal(err)
	}
}

func recorded(t *testing.T, db *store.DB, module string) (r store.Release, ok bool) {
	t.Helper()
	update(t, db, func(tx *store.Tx) (err error) {
		r, ok, err = store.Load[store.Release](tx, store.ReleaseKey(module))
		return err
	})
	return r, ok
}

// object returns a ConfigMap that is an object of a release.
func object(name string) store.Object {
	return store.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
}

// outcome returns the outcome of a check that has read the record of the release at the time at, and has found this
// revision. The argument removed has the objects that hooks have removed and that are still missing.
func outcome(t *testing.T, at time.Time, revision int, removed ...store.Removed) workflow.Outcome {
	t.Helper()
	manifest := helm.Manifest{Checksum: "sum", Objects: []helm.Object{helm.Object(object("a")), helm.Object(object("b"))}}
	o, err := releaseOutcome(helm.Release{}, manifest, revision, knownRelease{Release: store.Release{Removed: removed}, At: at}, "")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObjectsRemovedDuringACheckStayRecordedAsRemoved(t *testing.T) {
	t.Parallel()
	read := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	removed := func(name string, after time.Duration) store.Removed {
		return store.Removed{Object: object(name), At: read.Add(after)}
	}
	for name, c := range map[string]struct{ before, checked, want []store.Removed }{
		"removed during the check":                {[]store.Removed{removed("a", time.Second)}, nil, []store.Removed{removed("a", time.Second)}},
		"removed before, and back at the check":   {[]store.Removed{removed("a", -time.Second)}, nil, nil},
		"removed before, and still absent":        {[]store.Removed{removed("a", -1)}, []store.Removed{removed("a", -1)}, []store.Removed{removed("a", -1)}},
		"removed before and again in the check":   {[]store.Removed{removed("a", 1)}, []store.Removed{removed("a", -1)}, []store.Removed{removed("a", -1)}},
		"one before, and another in the meantime": {[]store.Removed{removed("a", -1), removed("b", 1)}, nil, []store.Removed{removed("b", 1)}},
	} {
		db := storetest.Memory(t)
		rs := &Releases{db: db}
		update(t, db, func(tx *store.Tx) error {
			return store.Save(tx, store.ReleaseKey("web"), store.Release{Revision: 1, Removed: c.before})
		})
		update(t, db, func(tx *store.Tx) error { return rs.saveRelease(tx, "web", outcome(t, read, 1, c.checked...)) })
		r, _ := recorded(t, db, "web")
		if diff := cmp.Diff(c.want, r.Removed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]store.Object{object("a"), object("b")}, r.Objects); diff != "" || r.Checksum != "sum" {
			t.Errorf("%s: the record is %+v (-want +got):\n%s", name, r, diff)
		}
	}
}

func TestTimeOfAReleaseIsThatOfItsRevision(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	rs := &Releases{db: db}
	var last time.Time
	for i, c := range []struct {
		revision int
		new      bool
	}{{1, true}, {1, false}, {2, true}, {2, false}, {1, true}} {
		update(t, db, func(tx *store.Tx) error { return rs.saveRelease(tx, "web", outcome(t, tx.Now(), c.revision)) })
		r, _ := recorded(t, db, "web")
		if r.Changed.IsZero() || r.Changed.Equal(last) == c.new {
			t.Errorf("record %d: revision %d has changed at %s, before at %s", i, c.revision, r.Changed, last)
		}
		last = r.Changed
	}
	update(t, db, func(tx *store.Tx) error { return rs.saveRelease(tx, "none", workflow.Outcome{Detail: "no chart"}) })
	if _, ok := recorded(t, db, "none"); ok {
		t.Error("a module without a chart has a release")
	}
}

func TestNoObjectOfAReleaseInMaintenanceIsRecorded(t *testing.T) {
	t.Parallel()
	manifest := helm.Manifest{Checksum: "sum", Objects: []helm.Object{helm.Object(object("a"))}}
	o, err := releaseOutcome(helm.Release{Maintained: true}, manifest, 3, knownRelease{}, "in maintenance")
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Memory(t)
	rs := &Releases{db: db}
	update(t, db, func(tx *store.Tx) error { return rs.saveRelease(tx, "web", o) })
	if r, _ := recorded(t, db, "web"); len(r.Objects) != 0 || r.Revision != 3 || r.Checksum != "sum" {
		t.Errorf("the record is %+v", r)
	}
}

func TestDeletedReleaseLeavesNoRecordAndTheModuleUninstalled(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	step := &deleteStep{&Releases{db: db}}
	update(t, db, func(tx *store.Tx) error {
		for module, state := range map[string]store.ModuleState{"web": store.Deleting, "db": store.On} {
			if err := store.Save(tx, store.ModuleKey(module), store.Module{State: state, Order: 7, Why: "because"}); err != nil {
				return err
			}
			if err := store.Save(tx, store.ReleaseKey(module), store.Release{Revision: 1}); err != nil {
				return err
			}
		}
		return nil
	})
	update(t, db, func(tx *store.Tx) error {
		facts, err := step.Apply(tx, workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}, workflow.Outcome{})
		if len(facts) > 0 {
			t.Errorf("facts %v", facts)
		}
		return err
	})
	if _, ok := recorded(t, db, "web"); ok {
		t.Error("the record of the release is left")
	}
	if _, ok := recorded(t, db, "db"); !ok {
		t.Error("the record of another release is deleted")
	}
	update(t, db, func(tx *store.Tx) error {
		all, err := store.LoadModules(tx)
		if all["web"] != (store.Module{State: store.Uninstalled, Order: 7, Why: "because"}) || all["db"].State != store.On {
			t.Errorf("the modules are %+v", all)
		}
		return err
	})
}

func TestReleaseOfAModuleThatHasRunAgainIsNotDeleted(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	step := &deleteStep{&Releases{db: db}} // without a Helm client, so a call of Helm would panic
	task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web"}}}
	module := store.Module{State: store.On, Enabled: true}
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(store.Save(tx, store.ModuleKey("web"), module), store.Save(tx, store.ReleaseKey("web"), store.Release{Revision: 2}))
	})
	o, err := step.Do(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	update(t, db, func(tx *store.Tx) error {
		_, err := step.Apply(tx, task, o)
		return err
	})
	if _, ok := recorded(t, db, "web"); !ok {
		t.Error("the record of the release is deleted")
	}
	update(t, db, func(tx *store.Tx) error {
		all, err := store.LoadModules(tx)
		if all["web"] != module {
			t.Errorf("the module is %+v", all["web"])
		}
		return err
	})
}

func TestKeptObjectsAreNamedInTheHistoryOnceAndCounted(t *testing.T) {
	t.Parallel()
	rs := &Releases{log: oncelog.New(zerolog.Nop())}
	a := helm.Kept{Object: helm.Object(object("a")), Owner: "other"}
	for _, c := range []struct {
		kept []helm.Kept
		want string
	}{
		{nil, ""},
		{[]helm.Kept{a}, "kept ConfigMap default/a, which belongs to release other"},
		{[]helm.Kept{a, a, a}, "kept ConfigMap default/a, which belongs to release other; and 2 more"},
	} {
		if got := rs.reportKept("web", c.kept); got != c.want {
			t.Errorf("%d kept: %q, want %q", len(c.kept), got, c.want)
		}
	}
}

func TestReasonOfAnUpgradeNamesTheStateOfTheRelease(t *testing.T) {
	t.Parallel()
	step := &checkStep{new(Releases)}
	for status, want := range map[helm.Status]string{helm.Absent: "not installed", helm.Failed: "release is failed"} {
		if got := step.whyOutdated("web", helm.State{Status: status}, helm.Manifest{}); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
