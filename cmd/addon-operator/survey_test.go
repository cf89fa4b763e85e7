package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/catalog"
	"addon-operator/internal/retry"
	"addon-operator/steps"
	"addon-operator/steps/addons/registry"
	"addon-operator/steps/discover"
	"addon-operator/steps/scan"
	"addon-operator/steps/survey"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/triggers"
	"addon-operator/workflow"
)

// verb runs a command that connects to the operator of the fixture, and returns the output of the command.
func (s *fixture) verb(args ...string) string {
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(append(args, "--debug-unix-socket", s.path("socket")))
	root.SetOut(&out)
	root.SetErr(&out)
	if err := root.ExecuteContext(s.t.Context()); err != nil {
		return err.Error()
	}
	return out.String()
}

func TestProblemsOfDirectoriesAndConfigMapAreShownAtOnceAndGoWhenMended(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	s := newFixture(t)
	s.file("modules/values.yaml", "webEnabled: true\n")
	s.file("modules/010-web/hooks/a.sh", hookText(`{"configVersion":"v1","beforeHelm":1}`, "true"))
	s.start(c.Kubeconfig(), namespace)
	s.converged()
	shown := func(verb []string, texts ...string) func() bool {
		return func() bool {
			out := s.verb(verb...)
			for _, text := range texts {
				if !strings.Contains(out, text) {
					return false
				}
			}
			return true
		}
	}
	s.file("modules/010-web/hooks/b.sh", hookText(`{"configVersion":"v1","beforeHelm":2}`, "echo ran >> "+s.path("ran")))
	if err := os.Chmod(s.path("modules/010-web/hooks/b.sh"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.file("modules/020-new/values.yaml", "newEnabled: true\n")
	if _, err := client(t, c).CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}, Data: map[string]string{"wbe": "a: 1"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range [][]string{{"workflow", "inspect", "--all"}, {"module", "list"}} {
		s.until(strings.Join(verb, " ")+" shows the problems", shown(verb, "b.sh is not executable", "chmod +x", "020-new is new", "reload", `did you mean "web"?`))
	}
	if err := os.Chmod(s.path("modules/010-web/hooks/b.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.until("the change of the directory is shown", shown([]string{"module", "list"}, "010-web has changed", "module run web"))
	if out := s.verb("module", "run", "web"); !strings.Contains(out, "requested as run") {
		t.Error(out)
	}
	s.until("the hook has run", func() bool { _, err := os.Stat(s.path("ran")); return err == nil })
	if out := s.verb("reload"); !strings.Contains(out, "requested as run") {
		t.Error(out)
	}
	s.until("the new module is on", shown([]string{"module", "list"}, "new     true     on"))
	if err := client(t, c).CoreV1().ConfigMaps(namespace).Delete(t.Context(), "addon-operator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("no problem is left", func() bool {
		out := s.verb("module", "list") + s.verb("workflow", "inspect", "--all")
		return !strings.Contains(out, "✖") && !strings.Contains(out, "fix:")
	})
}

func TestFailingJQFilterIsAProblemOfItsBindingUntilItWorks(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	maps := client(t, c).CoreV1().ConfigMaps(namespace)
	s := newFixture(t)
	s.file("modules/values.yaml", "webEnabled: true\n")
	s.file("modules/010-web/hooks/a.sh", hookText(`{"configVersion":"v1","kubernetes":[{"name":"seen","kind":"ConfigMap","queue":"side",`+
		`"nameSelector":{"matchNames":["seen","other"]},"jqFilter":".data.items | fromjson"}]}`, "true"))
	seen := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "seen"}, Data: map[string]string{"items": "["}}
	if _, err := maps.Create(t.Context(), seen, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.start(c.Kubeconfig(), namespace)
	s.converged()
	problem := "the jqFilter of binding seen of hook web/hooks/a.sh fails on ConfigMap " + namespace + "/seen"
	s.until("inspect shows it", func() bool {
		return strings.Contains(strings.Join(strings.Fields(s.verb("workflow", "inspect", "--all")), " "), problem)
	})
	got := s.get("/metrics")
	if line := `addon_operator_kube_jq_filter_errors_total{binding="seen",hook="hooks/a.sh",kind="ConfigMap",module="web",queue="side"} 1`; !strings.Contains(got, line) {
		t.Errorf("no line %s", line)
	}
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "addon_operator_kube_") && strings.Contains(line, `hook=""`) && strings.Contains(line, `kind="`) {
			t.Errorf("the operator's own watch is among those of hooks: %s", line)
		}
	}
	seen.Data["items"] = "[1]"
	if _, err := maps.Update(t.Context(), seen, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("the problem is gone", func() bool { return !strings.Contains(s.verb("module", "list"), "jqFilter") })
}

func TestAFunctionIsRepeatedWithGrowingDelaysUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake, calls := newWakeup(), make(chan time.Time, 10)
		var done atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			doOnWakeup(ctx, wake, retry.Delays{First: time.Minute, Longest: 4 * time.Minute}, func() bool {
				calls <- time.Now()
				return !done.Load()
			})
		}()
		called := func(what string, after time.Duration, want ...time.Duration) {
			t.Helper()
			began := time.Now()
			time.Sleep(after)
			synctest.Wait()
			var got []time.Duration
			for len(calls) > 0 {
				got = append(got, (<-calls).Sub(began))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: calls (-want +got):\n%s", what, d)
			}
		}
		called("before the first wakeup", time.Hour)
		wake.raise()
		called("not done", 12*time.Minute, 0, time.Minute, 3*time.Minute, 7*time.Minute, 11*time.Minute)
		wake.raise()
		called("woken between two calls", 2*time.Minute, 0, time.Minute)
		done.Store(true)
		called("done at the third call", time.Hour, time.Minute)
		cancel()
		<-ended
	})
}

// A raiserFunc is a function that implements workflow.Raiser.
type raiserFunc func(tx *store.Tx, events ...workflow.Event) error

func (f raiserFunc) Raise(tx *store.Tx, events ...workflow.Event) error { return f(tx, events...) }

// registerAddon registers the addon redis for the configuration c.
func registerAddon(t *testing.T, db *store.DB) {
	t.Helper()
	content := registry.Parsed{Name: registry.ContentName("redis"), Loaded: &catalog.Loaded{
		Addon: catalog.Addon{ID: "X", Name: "redis", Version: "1.0.0", Chart: catalog.Chart{Name: "redis", Version: "1.0.0", Digest: "d"}},
	}}
	var err error
	if content.Loaded.Archive, err = catalog.Pack(fstest.MapFS{"chart/Chart.yaml": {Data: []byte("apiVersion: v2\nname: redis\nversion: 1.0.0\n")}}); err != nil {
		t.Fatal(err)
	}
	var round store.ID
	begin := func(tx *store.Tx) (err error) {
		round, _, err = registry.Begin(tx, registry.Owner{Name: "c", UID: "u"})
		return err
	}
	if err := db.Update(begin); err != nil {
		t.Fatal(err)
	}
	if err := registry.Put(t.Context(), db, store.RoundHolder(round), content); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		addon := store.AddonResult{Entry: "redis", EntryVersion: "1.0.0", Content: content.Name, ID: "X", Name: "redis", Version: "1.0.0"}
		if err := registry.SaveResult(tx, registry.Cluster, "c", round, 0, store.RepositoryResult{URL: "https://h", Addons: []store.AddonResult{addon}}); err != nil {
			return err
		}
		r, err := registry.Open(tx, registry.Cluster, "c", round)
		if err != nil {
			return err
		}
		_, _, err = r.Register()
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// surveysOfAddons returns surveys with the registered addon redis. Its module cannot be written, because dir, the
// directory of modules made from addons, is a file. The function raise is called for each requested converge.
func surveysOfAddons(t *testing.T, raise func()) (s *surveys, dir string) {
	t.Helper()
	db := storetest.Memory(t)
	dir = filepath.Join(t.TempDir(), "addon-modules")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = newSurveys(surveys{
		log: zerolog.Nop(), db: db,
		steps:  &steps.Lifecycle{State: scan.New(scan.Options{DB: db, Log: zerolog.Nop(), AddonModulesDir: dir, AllAddonsAsModules: true}, nil)},
		engine: raiserFunc(func(*store.Tx, ...workflow.Event) error { raise(); return nil }),
	})
	registerAddon(t, db)
	return s, dir
}

// TestModulesAreWrittenAgainAlsoIfTheLastDiscoveryFoundThem lets a write fail after the first check. The registered
// addons are those of the last discovery, so only the failed write can cause the next checks.
func TestModulesAreWrittenAgainAlsoIfTheLastDiscoveryFoundThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, dir := surveysOfAddons(t, func() { t.Error("a converge was requested") })
		if err := s.db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.AddonModuleKey("redis"), store.AddonModule{Content: registry.ContentName("redis")})
		}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { s.requestAddons(ctx); close(ended) }()
		synctest.Wait()
		if err := s.steps.State.Addons.Write(nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, err := os.Stat(filepath.Join(dir, "redis")); err != nil {
			t.Errorf("the module was not written again: %v", err)
		}
		cancel()
		<-ended
	})
}

func TestAConvergeIsRequestedWhenModulesMadeFromAddonsCanBeWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var raised atomic.Int32
		s, dir := surveysOfAddons(t, func() { raised.Add(1) })
		ended := make(chan struct{})
		go func() { s.requestAddons(ctx); close(ended) }()
		expect := func(when string, want int32) {
			t.Helper()
			synctest.Wait()
			if n := raised.Load(); n != want {
				t.Errorf("%s: converges were requested %d times, want %d", when, n, want)
			}
		}
		expect("after the registration", 1)
		if err := s.steps.State.Addons.Write(nil); err != nil { // by the requested converge
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		expect("while the modules cannot be written", 1)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		expect("when the modules can be written", 2)
		cancel()
		<-ended
	})
}

// TestProblemsAreUpdatedAfterTheDiskWasFull lets the commits of the first surveys fail. No change follows that would
// cause another survey.
func TestProblemsAreUpdatedAfterTheDiskWasFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		db, err := store.OpenMemory(&store.Memory{Before: func(int) error {
			if full.Load() {
				return store.ErrFull
			}
			return nil
		}}, store.Options{Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(func(tx *store.Tx) error {
			_, err := store.SaveProblem(tx, store.Problem{Kind: store.FailingFilter, Object: "Pod shop/web"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		state := scan.New(scan.Options{DB: db, Log: zerolog.Nop(), ModulesDirs: []string{filepath.Join(t.TempDir(), "missing")}}, nil)
		s := &surveys{
			log: zerolog.Nop(), db: db, kube: new(triggers.Kube), problems: newWakeup(), filters: newWakeup(),
			steps: &steps.Lifecycle{Discovery: &discover.Discovery{Survey: survey.New(survey.Sources{DB: db, Modules: state.Modules}, nil)}},
		}
		full.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.updateProblems(ctx) })
		running.Go(func() { s.updateFailingFilters(ctx) })
		time.Sleep(time.Hour)
		full.Store(false)
		time.Sleep(time.Hour)
		cancel()
		running.Wait()
		var kinds []store.ProblemKind
		if err := db.View(func(tx *store.Tx) error {
			for p, err := range store.EachProblem(tx) {
				if err != nil {
					return err
				}
				kinds = append(kinds, p.Kind)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []store.ProblemKind{store.BadDirectories}; !slices.Equal(kinds, want) {
			t.Errorf("the problems are %q, want %q", kinds, want)
		}
	})
}

// TestSurveysUseLittleTimeWhileTheDiskIsFull repeats a survey for an hour. Each commit takes 10 s and finds a full
// disk.
func TestSurveysUseLittleTimeWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, surveyed := false, 0
		db, err := store.OpenMemory(&store.Memory{Before: func(int) error {
			if !full {
				return nil
			}
			surveyed++
			time.Sleep(10 * time.Second)
			return store.ErrFull
		}}, store.Options{Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		full = true
		state := scan.New(scan.Options{DB: db, Log: zerolog.Nop(), ModulesDirs: []string{filepath.Join(t.TempDir(), "missing")}}, nil)
		s := &surveys{log: zerolog.Nop(), db: db, problems: newWakeup(), steps: &steps.Lifecycle{
			Discovery: &discover.Discovery{Survey: survey.New(survey.Sources{DB: db, Modules: state.Modules}, nil)},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s.updateProblems(ctx)
		if most := int(time.Hour / surveyMost); surveyed < most/2 || surveyed > most {
			t.Errorf("%d surveys in an hour", surveyed)
		}
	})
}
