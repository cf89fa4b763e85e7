package inspect_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

func (w *fixture) moduleStates() inspect.Modules {
	w.t.Helper()
	r := inspect.Reader{Live: true, Graphs: []*graph.Graph{lifecycle.Graph}}
	var all inspect.Modules
	if err := w.db.View(func(tx *store.Tx) (err error) {
		all, err = r.Modules(tx)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func TestModuleListTellsFailingHeldAndBrokenModulesFromThoseThatAreOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("done", "failing", "waiting")
		w.fails("release-upgrade failing", "helm upgrade of release failing: timed out\nPod x: ImagePullBackOff")
		w.start(onStart)
		sleep(8 * time.Second)
		if err := w.db.Update(func(tx *store.Tx) error {
			for name, m := range map[string]store.Module{
				"done": {State: store.On, Enabled: true, RanIn: 1}, "earlier": {State: store.On, Enabled: true, RanInStart: 1}, "attached": {State: store.On, Enabled: true}, "failing": {State: store.On, Enabled: true}, "waiting": {Enabled: true, State: store.Off},
				"broken": {State: store.On, Enabled: true, Broken: "values.yaml: line 3"}, "off": {State: store.Off},
				"undefined": {State: store.Off, Enabled: true, Undefined: "crds/x.yaml: no"}, "leaving": {State: store.Deleting},
			} {
				if err := store.Save(tx, store.ModuleKey(name), m); err != nil {
					return err
				}
			}
			_, err := store.SaveProblem(tx, store.Problem{
				Kind: store.NotExecutable, Subject: graph.Subject{Module: "done", Hook: "hooks/x.sh"}, Object: "/m/done/hooks/x.sh",
				Error: "/m/done/hooks/x.sh is not executable, so it is not run as a hook of module done", Fix: "chmod +x /m/done/hooks/x.sh",
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		all := w.moduleStates()
		for name, want := range map[string]inspect.ModuleStatus{
			"done":      {State: inspect.ModuleOn},
			"earlier":   {State: inspect.ModuleOn}, // its last run ended in a version of the operator that did not record the run
			"attached":  {State: inspect.ModulePending, Reason: "enabled; its first run has not ended"},
			"failing":   {State: inspect.ModuleFailing, Reason: "release-upgrade failed 2 times: helm upgrade of release failing: timed out Pod x: ImagePullBackOff", Since: w.db.Now().Add(-8 * time.Second)},
			"waiting":   {State: inspect.ModulePending, Reason: "enabled; its first run has not started"},
			"broken":    {State: inspect.ModuleBroken, Reason: "values.yaml: line 3"},
			"undefined": {State: inspect.ModuleBlocked, Reason: "its CRDs cannot be installed: crds/x.yaml: no"},
			"leaving":   {State: inspect.ModuleDeleting},
			"off":       {State: inspect.ModuleOff},
		} {
			if got := all.Modules[name]; got != want {
				t.Errorf("%s is %+v, want %+v", name, got, want)
			}
		}
		if len(all.Problems) != 1 || all.Problems[0].Object != "/m/done/hooks/x.sh" {
			t.Errorf("problems %+v", all.Problems)
		}
	})
}

func TestRunningModuleIsListedWithItsStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.takes("release-upgrade", time.Minute)
		if err := w.db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true})
		}); err != nil {
			t.Fatal(err)
		}
		w.start(onStart)
		if got := w.moduleStates().Modules["web"]; got.State != inspect.ModuleRunning || got.Reason != "release-upgrade" || !got.Since.Equal(time.Now()) {
			t.Errorf("web is %+v", got)
		}
	})
}

func TestAModuleRunsWhileASynchronizationRunsInAQueueOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.saveModules(map[string]store.Module{"web": {State: store.On, Enabled: true}, "shop": {State: store.On, RanInStart: 1, Enabled: true}})
		w.says(string(lifecycle.ModuleRun), lifecycle.JustEnabled)
		w.items[lifecycle.ModuleSynchronization] = []graph.Item{
			{Subject: graph.Subject{Module: "web", Hook: "a.sh", Binding: "nodes"}, Queue: "a"},
			{Subject: graph.Subject{Module: "web", Hook: "b.sh", Binding: "pods"}, Queue: "b", Wait: true},
		}
		w.takes("module-kubernetes-synchronization web/a.sh nodes", time.Hour)
		w.takes("module-kubernetes-synchronization web/b.sh pods", time.Minute)
		w.takes("release-upgrade", time.Minute)
		w.takes(string(lifecycle.ModuleKubernetesEvent), 2*time.Hour)
		w.start(onStart)
		w.raise(event("shop", "10-first.sh"))
		began := time.Now()
		for _, want := range []inspect.ModuleStatus{
			{State: inspect.ModuleRunning, Reason: "module-kubernetes-synchronization", Since: began},
			{State: inspect.ModuleRunning, Reason: "release-upgrade", Since: began.Add(time.Minute)},
			{State: inspect.ModuleRunning, Reason: "module-kubernetes-synchronization", Since: began},
		} {
			all := w.moduleStates()
			if got := all.Modules["web"]; got.State != want.State || got.Reason != want.Reason || !got.Since.Equal(want.Since) {
				t.Errorf("after %s, web is %+v, want %+v", time.Since(began), got, want)
			}
			if got := all.Modules["shop"]; got.State != inspect.ModuleOn {
				t.Errorf("with an event, shop is %+v", got)
			}
			sleep(time.Minute)
		}
	})
}

func TestStoredProblemIsShownInFullWithItsFix(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(onStart)
		for _, p := range []store.Problem{
			{
				Kind: store.NotExecutable, Subject: graph.Subject{Module: "web", Hook: "hooks/x.sh"}, Object: "/modules/010-web/hooks/x.sh",
				Error: "/modules/010-web/hooks/x.sh is not executable, so it is not run as a hook of module web", Fix: "chmod +x /modules/010-web/hooks/x.sh",
			},
			{
				Kind: store.NewDirectory, Subject: graph.Subject{Module: "new"}, Object: "/modules/020-new",
				Error: "module directory /modules/020-new is new; no converge has read it yet", Command: []string{"reload"},
			},
			{Kind: store.FailingFilter, Object: "Pod default/x", Error: "jqFilter fails", More: 3},
		} {
			if err := w.db.Update(func(tx *store.Tx) error { _, err := store.SaveProblem(tx, p); return err }); err != nil {
				t.Fatal(err)
			}
		}
		run := w.snapshot(0)
		if !run.Attention() {
			t.Error("a run with problems needs no attention")
		}
		compare(t, "stored-problems.txt", inspect.Text(run, layout))
	})
}

// TestTheStoreOfAStoppedOperatorSaysWhichDeletionTheNextStartGoesOnWith stops the operator during the deletion of a
// module. The status and the diagnosis must say that the next start continues the deletion.
func TestTheStoreOfAStoppedOperatorSaysWhichDeletionTheNextStartGoesOnWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.takes("release-upgrade web", time.Hour)
		w.raiseStart("v1")
		w.update(func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.Deleting, Why: "disabled by ConfigMap key webEnabled"})
		})
		const want = "module web is being deleted, because it is disabled by ConfigMap key webEnabled. " +
			"The deletion goes on when an operator starts. To keep the module, enable it again before the start"
		l := layout
		l.Now = w.db.Now()
		if text := oneLine(inspect.StatusText(w.status(inspect.Reader{Live: true}), l)); strings.Contains(text, "when an operator starts") {
			t.Errorf("the status of a running operator warns of the next start: %s", text)
		}
		w.close()
		w.open()
		w.update(func(tx *store.Tx) error {
			return store.Save(tx, store.At(store.Starts).Uint(1), store.Start{Epoch: 1, Began: tx.Now(), Pod: "addon-operator-0"}) // a start without an end, as after a crash
		})
		for name, text := range map[string]string{
			"status":   inspect.StatusText(w.status(inspect.Reader{}), l),
			"diagnose": inspect.DiagnosisText(w.diagnose(inspect.Reader{}, inspect.StatusOperator{}), l),
		} {
			if !strings.Contains(oneLine(text), want) {
				t.Errorf("%s does not warn:\n%s", name, text)
			}
			if name == "diagnose" && !strings.Contains(oneLine(text), "kubectl logs addon-operator-0 --previous") {
				t.Errorf("%s does not name the pod:\n%s", name, text)
			}
		}
	})
}

func TestModuleThatIsBeingDeletedSaysWhyAndSinceWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start()
		at := w.db.Now().Add(-time.Hour)
		const why = "disabled by ConfigMap key webEnabled"
		records := map[string]store.Module{
			"waits":          {State: store.On, Why: why, DecidedAt: at},
			"waits-unknown":  {State: store.On, DecidedAt: at},
			"retiring":       {State: store.Deleting, Why: why, DecidedAt: at},
			"uninstalled":    {State: store.Uninstalled, Why: why, DecidedAt: at},
			"enabled-again":  {State: store.Deleting, Enabled: true, Why: "enabled by ConfigMap key webEnabled", DecidedAt: at},
			"not-yet-begun":  {State: store.Off, Enabled: true, Why: "enabled by modules/values.yaml", DecidedAt: at},
			"never-enabled":  {State: store.Off, Why: "disabled because nothing enables it", DecidedAt: at},
			"runs-as-wanted": {State: store.On, RanInStart: 1, Enabled: true, Why: "enabled by modules/values.yaml", DecidedAt: at},
		}
		w.saveModules(records)
		all := w.moduleStates()
		want := map[string]inspect.ModuleStatus{
			"waits":          {State: inspect.ModuleDeleting, Reason: why + "; its delete waits", Since: at},
			"waits-unknown":  {State: inspect.ModuleDeleting, Reason: "not enabled; its delete waits", Since: at},
			"retiring":       {State: inspect.ModuleDeleting, Reason: why, Since: at},
			"uninstalled":    {State: inspect.ModuleDeleting, Reason: why, Since: at},
			"enabled-again":  {State: inspect.ModuleDeleting, Since: at}, // no reason, because Why says why the module is enabled
			"not-yet-begun":  {State: inspect.ModulePending, Reason: "enabled; its first run has not started"},
			"never-enabled":  {State: inspect.ModuleOff},
			"runs-as-wanted": {State: inspect.ModuleOn},
		}
		if diff := cmp.Diff(want, all.Modules); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestAPauseOfAHookLeavesItsModuleOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start()
		w.saveModules(map[string]store.Module{"web": {State: store.On, RanInStart: 1, Enabled: true}, "db": {State: store.On, RanInStart: 1, Enabled: true}})
		for _, paused := range []graph.Subject{{Module: "web", Hook: "a.sh"}, {Module: "db"}} {
			if err := w.e.Pause(lifecycle.Graph.Name, workflow.PauseTarget{Subject: paused}, "ann", "the disk is changed"); err != nil {
				t.Fatal(err)
			}
		}
		all := w.moduleStates()
		if web, db := all.Modules["web"], all.Modules["db"]; web.State != inspect.ModuleOn || db.State != inspect.ModulePaused || !strings.Contains(db.Reason, "ann: the disk is changed") || db.Since.IsZero() {
			t.Errorf("web is %+v, and db is %+v", web, db)
		}
		text := inspect.ProblemsText(all.Problems, inspect.Layout{Program: "addon-operator", Width: 200})
		for _, want := range []string{"fix: addon-operator resume module db\n", "addon-operator resume hook web/a.sh\n", "# this starts the work that waits: first ask"} {
			if !strings.Contains(text, want) {
				t.Errorf("the problems lack %q:\n%s", want, text)
			}
		}
	})
}
