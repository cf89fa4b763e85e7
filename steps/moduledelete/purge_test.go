package moduledelete

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// failing implements Releases and Observer. Uninstall counts its calls and returns the error err.
type failing struct {
	Releases
	err         error
	uninstalled int
	blocked     []string
}

func (f *failing) Uninstall(context.Context, workflow.Task) (workflow.Outcome, error) {
	f.uninstalled++
	return workflow.Outcome{}, f.err
}

func (f *failing) DeletionBlocked(releases []string, _ string) {
	f.blocked = append(f.blocked, releases...)
}

// records returns how many of the records of module "old" are in the store.
func records(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	scantest.Update(t, db, func(tx *store.Tx) error {
		for _, key := range []store.Key{store.ModuleKey("old"), store.HookKey("old", "h"), store.ReleaseKey("old")} {
			if tx.Get(key) != nil {
				n++
			}
		}
		return nil
	})
	return n
}

func TestRecordsOfAPurgedReleaseAreDeletedOnlyAfterIt(t *testing.T) {
	t.Parallel()
	forbidden := errors.New("secrets is forbidden")
	for name, c := range map[string]struct {
		change func(t *testing.T, mounted string)
		err    error
		try    int

		calls   int // of Uninstall
		detail  string
		facts   []graph.Fact
		fails   bool
		records int
		problem string
	}{
		"it is uninstalled":            {try: 1, calls: 1},
		"it is uninstalled by a retry": {try: mostPurges, calls: 1},
		"the first attempt fails":      {err: forbidden, try: 1, calls: 1, fails: true, records: 3},
		"the attempt before the last":  {err: forbidden, try: mostPurges - 1, calls: 1, fails: true, records: 3},
		"the last attempt fails":       {err: forbidden, try: mostPurges, calls: 1, detail: "not purged: secrets is forbidden", records: 3, problem: "release old belongs to no module and cannot be uninstalled: secrets is forbidden"},
		"its directory is back":        {func(t *testing.T, mounted string) { t.Helper(); scantest.Write(t, mounted, "020-old/values.yaml", "") }, nil, 1, 0, "not purged: module directory MODULES/020-old exists again", []graph.Fact{lifecycle.Restored}, false, 3, ""},
		"its directory cannot be used": {func(t *testing.T, mounted string) { t.Helper(); scantest.Write(t, mounted, "020-old/values.yaml", "[") }, nil, 1, 0, "not purged: module directory MODULES/020-old exists again", []graph.Fact{lifecycle.Restored}, false, 3, ""},
		"a directory has become empty": {func(t *testing.T, mounted string) { t.Helper(); remove(t, mounted+"/010-web") }, nil, 1, 0, "not purged: MODULES holds no module", []graph.Fact{lifecycle.Restored}, false, 3, ""},
		"a directory cannot be read":   {func(t *testing.T, mounted string) { t.Helper(); remove(t, mounted) }, nil, 1, 0, "", nil, true, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, mounted := scantest.New(t)
			scantest.Scan(t, state)
			if c.change != nil {
				c.change(t, mounted)
			}
			scantest.Update(t, state.DB, func(tx *store.Tx) error {
				return errors.Join(
					store.Save(tx, store.ModuleKey("old"), store.Module{State: store.On, Missing: true}),
					store.Save(tx, store.HookKey("old", "h"), store.Hook{}), store.Save(tx, store.ReleaseKey("old"), store.Release{}),
				)
			})
			releases := &failing{err: c.err}
			step := &purgeStep{state: state, releases: releases, observer: releases}
			task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "old"}}, Try: c.try}
			out, err := step.Do(t.Context(), task)
			if (err != nil) != c.fails || releases.uninstalled != c.calls {
				t.Fatalf("error %v; %d calls of Uninstall, want %d", err, releases.uninstalled, c.calls)
			}
			if err == nil {
				scantest.Update(t, state.DB, func(tx *store.Tx) error { _, err := step.Apply(tx, task, out); return err })
			}
			if diff := cmp.Diff(c.facts, out.Facts); diff != "" || out.Detail != strings.ReplaceAll(c.detail, "MODULES", mounted) {
				t.Errorf("detail %q, facts (-want +got):\n%s", out.Detail, diff)
			}
			if n := records(t, state.DB); n != c.records {
				t.Errorf("%d records are left, want %d", n, c.records)
			}
			var problems []string
			scantest.Update(t, state.DB, func(tx *store.Tx) error {
				all, err := store.AllProblems(tx)
				for _, p := range all {
					problems = append(problems, p.Error)
				}
				return err
			})
			if got := strings.Join(problems, "; "); got != c.problem || (len(releases.blocked) > 0) != (c.problem != "") {
				t.Errorf("problems %q, want %q; reported releases: %q", got, c.problem, releases.blocked)
			}
		})
	}
}

func TestAPurgeThatIsCanceledHasNotFailed(t *testing.T) {
	t.Parallel()
	state, _ := scantest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	releases := &failing{err: context.Canceled}
	step := &purgeStep{state: state, releases: releases, observer: releases}
	if out, err := step.Do(ctx, workflow.Task{Try: mostPurges}); !errors.Is(err, context.Canceled) || len(releases.blocked) > 0 {
		t.Errorf("%+v, %v; reported releases: %q", out, err, releases.blocked)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
