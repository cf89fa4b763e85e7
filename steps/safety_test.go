package steps

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/helm"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/hooks"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// newLifecycle returns the steps over an empty store, and two directories. mounted is the directory
// of modules and contains the module web. unmounted is empty and not used yet.
func newLifecycle(t *testing.T) (s *Lifecycle, mounted, unmounted string) {
	t.Helper()
	root := t.TempDir()
	mounted, unmounted = filepath.Join(root, "a"), filepath.Join(root, "b")
	for _, dir := range []string{filepath.Join(mounted, "010-web"), unmounted} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s = New(Options{
		DB: storetest.Memory(t), Log: zerolog.Nop(), ModulesDirs: []string{mounted}, GlobalHooksDir: root, UnnumberedOrder: 1,
	})
	e, err := workflow.New(s.db, workflow.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	s.Connect(e, nil)
	return s, mounted, unmounted
}

// rebuilt returns the steps over the store of s with changed options. Nothing is scanned yet.
func rebuilt(t *testing.T, s *Lifecycle, change func(*Options)) *Lifecycle {
	t.Helper()
	o := s.options
	change(&o)
	s = New(o)
	e, err := workflow.New(s.db, workflow.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	s.Connect(e, nil)
	return s
}

func TestModuleIsGoneOnlyWhereDirectoriesHoldModules(t *testing.T) {
	s, mounted, unmounted := newLifecycle(t)
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"web": false, "old": true} {
		if gone, err := s.Modules.Gone(name); err != nil || gone != want {
			t.Errorf("gone(%s) = %t, %v", name, gone, err)
		}
	}
	s = rebuilt(t, s, func(o *Options) { o.ModulesDirs = []string{mounted, unmounted} })
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	gone, err := s.Modules.Gone("old")
	if gone || err == nil || !strings.Contains(err.Error(), unmounted) {
		t.Errorf("gone(old) = %t, %v; want an error that names %s", gone, err, unmounted)
	}
}

func TestEnabledModulesThatCannotBeSeenStayEnabled(t *testing.T) {
	set := module.Set{Modules: []module.Module{{Name: "a"}, {Name: "c"}, {Name: "d"}}}
	got := withUnseen([]string{"a", "unseen", "c"}, []string{"c", "d"}, set)
	if diff := cmp.Diff([]string{"unseen", "c", "d"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyHooksDirectoryForgetsNoHooks(t *testing.T) {
	s, _, _ := newLifecycle(t)
	none := hooks.Found{Hooks: map[string]store.Hook{}}
	if err := s.hooks.CheckNotEmpty(none); err != nil {
		t.Errorf("where there never was a hook: %v", err)
	}
	if err := s.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.HookKey("", "hooks/x.sh"), store.Hook{Digest: "d"})
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.hooks.CheckNotEmpty(none); err == nil || !strings.Contains(err.Error(), "is it mounted?") {
		t.Errorf("got %v", err)
	}
}

func TestHookOfAMovedModuleIsRunWhereItLiesNow(t *testing.T) {
	s, _, _ := newLifecycle(t)
	hookAt := func(path string) hooks.Found {
		file, err := json.Marshal(hook.File{Scope: hook.Module, Name: "hooks/h.sh", Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return hooks.Found{Digest: "same", Hooks: map[string]store.Hook{"hooks/h.sh": {Digest: "same", File: file, Config: json.RawMessage(`{}`)}}}
	}
	for _, c := range []struct {
		path    string
		changed bool
	}{{"/modules/020-web/hooks/h.sh", true}, {"/modules/030-web/hooks/h.sh", false}} {
		if err := s.db.Update(func(tx *store.Tx) error {
			changed, err := hookAt(c.path).Save(tx, "web")
			if changed != c.changed {
				t.Errorf("at %s changed is %t", c.path, changed)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.db.View(func(tx *store.Tx) error {
			h, _, err := bindings.LoadHook(tx, "web", "hooks/h.sh")
			if h.File.Path != c.path {
				t.Errorf("the hook is run at %s, lies at %s", h.File.Path, c.path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSectionThatAJournalAnnouncesIsLeftToIt(t *testing.T) {
	before := values.Config{Sections: values.Values{"web": map[string]any{"n": int64(1)}}}
	ops := []values.Op{{Op: "add", Path: "/web/n", Value: json.RawMessage("2")}}
	w, err := sections.PlanConfigWrite(before, "web", ops, nil)
	if err != nil {
		t.Fatal(err)
	}
	effect, err := desired.EffectOf(*w)
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Memory(t)
	for _, c := range []struct {
		seen any // in the ConfigMap
		want any // in force after step 16
	}{
		{map[string]any{"n": int64(2)}, map[string]any{"n": int64(1)}},
		{map[string]any{"n": int64(3)}, map[string]any{"n": int64(3)}},
	} {
		now := values.Config{Sections: values.Values{"web": c.seen}}
		out := workflow.Outcome{Effects: []workflow.Effect{effect}}
		key := store.JournalKey(store.ID{Epoch: 1, N: 1})
		if err := db.Update(func(tx *store.Tx) error {
			if err := store.Save(tx, key, out); err != nil {
				return err
			}
			defer tx.Delete(key)
			return desired.LeaveAnnounced(tx, before, &now)
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, now.Sections["web"]); diff != "" {
			t.Error(diff)
		}
	}
}

func TestHookWriteThatMetAnotherChangeIsPatchedOnIt(t *testing.T) {
	before := values.Config{Sections: values.Values{"web": map[string]any{"a": int64(1)}}}
	w, err := sections.PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/b", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, live, want string }{
		{"as it was", "a: 1\n", "a: 1\nb: 2\n"},
		{"written already", "a: 1\nb: 2\n", ""},
		{"changed by a person", "a: 5\nc: 3\n", "a: 5\nb: 2\nc: 3\n"},
	} {
		text, changed, err := w.Text(map[string]string{"web": c.live}, values.Layers{})
		if err != nil || changed != (c.want != "") || text != c.want {
			t.Errorf("%s: %q, %t, %v; want %q", c.name, text, changed, err, c.want)
		}
	}
}

func TestKeptReleasesAreAProblemUntilTheyAreAllowed(t *testing.T) {
	s, _, _ := newLifecycle(t)
	s = rebuilt(t, s, func(o *Options) { o.Config = &kube.ConfigMap{} })
	step := s.discoverStep()
	releases := []helm.Summary{{Name: "web"}, {Name: "one"}, {Name: "two"}}
	discover := func() (purge []graph.Item, problems []store.Problem) {
		t.Helper()
		k, err := step.known(module.Set{})
		if err != nil {
			t.Fatal(err)
		}
		k.startup.Converged = 1
		found := discovered{Whole: true, Allowed: k.allowed.At}
		purge = step.lists([]string{"one", "two"}, &found, k, releases)[lifecycle.Unknown]
		data, err := json.Marshal(found)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.db.Update(func(tx *store.Tx) error {
			if _, err := step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data}); err != nil {
				return err
			}
			problems, err = store.AllProblems(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return purge, problems
	}
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	purge, problems := discover()
	if len(purge) != 0 || len(problems) != 1 || problems[0].Kind != store.BlockedDeletion ||
		problems[0].Error != "2 of 3 releases would be purged, so the safety check keeps them: one, two" ||
		strings.Join(problems[0].Command, " ") != "reload --allow-purge=2" {
		t.Errorf("purge %v, problems %+v", purge, problems)
	}
	if err := s.db.Update(func(tx *store.Tx) error {
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
	s, _, _ := newLifecycle(t)
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	var found discovered
	releases := []helm.Summary{{Name: "old"}, {Name: "redis", State: helm.State{Addon: true}}, {Name: "web", State: helm.State{Addon: true}}}
	unknown, err := s.discoverStep().unknown(t.Context(), set, releases, &found)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"old"}, unknown); diff != "" {
		t.Errorf("releases to purge: %s", diff)
	}
	if len(found.Blocked) != 1 || !strings.HasSuffix(found.Blocked[0].Error, ": redis") {
		t.Errorf("problems %+v, want one that names redis", found.Blocked)
	}
}
