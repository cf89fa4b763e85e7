package stale_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hooks"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/stale"
	"addon-operator/store"
)

// program returns the script of a hook that prints config.
func program(config string) string { return "#!/bin/sh\necho '" + config + "'\n" }

const (
	rules = `"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]`
	a     = `{"name":"a.example.com",` + rules + `}`
	b     = `{"name":"b.example.com",` + rules + `}`
	pods  = `"kubernetes":[{"name":"pods","kind":"Pod"}]`

	up = `"kubernetesCustomResourceConversion":[{"name":"up","crdName":"things.x.io","conversions":[{"fromVersion":"v1","toVersion":"v2"}]}]`

	config = `{"configVersion":"v1",` + pods + `,"kubernetesValidating":[` + a + `],"kubernetesMutating":[` + b + `],` + up + `}`
)

// A bench has a hook of the module "web" and a global hook, both called hook.sh and with the configuration config. It
// also has the global hook plain.sh, which has only a kubernetes binding, and the module "db" without hooks. All
// bindings are attached.
type bench struct {
	t                *testing.T
	s                *scan.State
	runner           *hook.Runner
	modules, globals string // directories of modules and of global hooks
}

func newBench(t *testing.T, runner *hook.Runner) *bench {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	x := &bench{t: t, s: scan.New(o, nil), runner: runner, modules: mounted, globals: o.GlobalHooksDir}
	scantest.Write(t, mounted, "020-db/values.yaml", "")
	for _, dir := range []string{filepath.Join(mounted, "010-web"), x.globals} {
		scantest.Program(t, dir, "hooks/hook.sh", program(config))
	}
	scantest.Program(t, x.globals, "hooks/plain.sh", program(`{"configVersion":"v1",`+pods+`}`))
	scantest.Scan(t, x.s)
	x.attach("web", hook.Module, filepath.Join(mounted, "010-web"))
	x.attach("", hook.Global, x.globals)
	return x
}

// attach reads the configurations of the hooks of module in dir, and attaches their bindings.
func (x *bench) attach(module string, scope hook.Scope, dir string) {
	x.t.Helper()
	digest, err := x.s.Modules.CodeOf(module)
	if err != nil {
		x.t.Fatal(err)
	}
	found, err := x.configs().Ask(x.t.Context(), module, scope, dir, digest)
	if err != nil {
		x.t.Fatal(err)
	}
	scantest.Update(x.t, x.s.DB, func(tx *store.Tx) error {
		if _, err := found.Save(tx, module); err != nil {
			return err
		}
		all, err := bindings.LoadHooks(tx, module)
		if err != nil {
			return err
		}
		_, err = bindings.Attach(tx, module, all)
		return err
	})
}

// configs returns new Configs, in which no hook has answered yet, as in a new process.
func (x *bench) configs() *hooks.Configs {
	return hooks.New(x.s.DB, x.s.Log, x.runner, x.s.Modules)
}

// restarted returns new Bindings, as in a new process.
func (x *bench) restarted() *stale.Bindings {
	return stale.New(x.s.DB, x.s.Log, x.s.Modules, x.configs())
}

// replace scans the modules and replaces the stale conversion bindings, as a new process does.
func (x *bench) replace(modules []string, complete bool) {
	x.t.Helper()
	scantest.Scan(x.t, x.s)
	s := x.restarted()
	found, err := s.FindConversions(x.t.Context(), modules, complete)
	if err != nil {
		x.t.Fatal(err)
	}
	scantest.Update(x.t, x.s.DB, func(tx *store.Tx) error { return s.Replace(tx, found) })
}

func (x *bench) find(s *stale.Bindings) []stale.Binding {
	x.t.Helper()
	found, err := s.Find(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	return found
}

// attached returns the names of the bindings in the store, in the order of their keys.
func (x *bench) attached() (names []string) {
	x.t.Helper()
	if err := x.s.DB.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Bindings)) {
			s, err := store.ParseBindingKey(k)
			if err != nil {
				return err
			}
			names = append(names, s.String())
		}
		return nil
	}); err != nil {
		x.t.Fatal(err)
	}
	return names
}

// Find does not return conversion bindings, because perhaps another hook converts the objects.
func TestAWebhookIsStaleOnlyIfItsHookIsKnownNotToHaveIt(t *testing.T) {
	const global, web = "hooks/hook.sh ", "web/hooks/hook.sh "
	runner := scantest.Runner(t)
	for name, c := range map[string]struct {
		change func(*bench)
		want   []string
	}{
		"nothing has changed": {func(*bench) {}, nil},
		"the hook has one binding less": {func(x *bench) {
			scantest.Program(t, x.modules, "010-web/hooks/hook.sh", program(`{"configVersion":"v1","kubernetesMutating":[`+b+`]}`))
		}, []string{web + "a.example.com"}},
		"a binding has another type": {func(x *bench) {
			scantest.Program(t, x.modules, "010-web/hooks/hook.sh", program(`{"configVersion":"v1","kubernetesValidating":[`+a+`,`+b+`]}`))
		}, []string{web + "b.example.com"}},
		"a binding has other rules": {func(x *bench) {
			other := `{"name":"a.example.com","rules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["*"],"resources":["deployments"]}]}`
			scantest.Program(t, x.modules, "010-web/hooks/hook.sh", program(`{"configVersion":"v1","kubernetesValidating":[`+other+`],"kubernetesMutating":[`+b+`]}`))
		}, nil},
		"the hook is deleted":            {func(x *bench) { x.remove(x.modules, "010-web/hooks/hook.sh") }, []string{web + "a.example.com", web + "b.example.com"}},
		"the global hook is deleted":     {func(x *bench) { x.remove(x.globals, "hooks/hook.sh") }, []string{global + "a.example.com", global + "b.example.com"}},
		"the module is deleted":          {func(x *bench) { x.remove(x.modules, "010-web") }, []string{web + "a.example.com", web + "b.example.com"}},
		"the module has another number":  {func(x *bench) { x.rename("010-web", "030-web") }, nil},
		"no module is mounted":           {func(x *bench) { x.remove(x.modules, "010-web"); x.remove(x.modules, "020-db") }, nil},
		"no global hook is mounted":      {func(x *bench) { x.remove(x.globals, "hooks") }, nil},
		"the module cannot be loaded":    {func(x *bench) { scantest.Write(t, x.modules, "010-web/values.yaml", "web: [") }, nil},
		"the hook does not print config": {func(x *bench) { scantest.Program(t, x.modules, "010-web/hooks/hook.sh", "#!/bin/sh\nexit 3\n") }, nil},
		"the hook does not end": {func(x *bench) {
			scantest.Program(t, x.modules, "010-web/hooks/hook.sh", "#!/bin/sh\nexec sleep 1000\n")
			x.runner = scantest.ImpatientRunner(t)
		}, nil},
		"the global hook does not end": {func(x *bench) {
			scantest.Program(t, x.globals, "hooks/hook.sh", "#!/bin/sh\nexec sleep 1000\n")
			x.runner = scantest.ImpatientRunner(t)
		}, nil},
		"the record of the hook is lost": {func(x *bench) {
			scantest.Update(t, x.s.DB, func(tx *store.Tx) error { tx.Delete(store.HookKey("web", "hooks/hook.sh")); return nil })
			x.remove(x.modules, "010-web/hooks/hook.sh")
		}, nil},
		"the record of one of two hooks is damaged": {func(x *bench) {
			x.damage(store.HookKey("web", "hooks/hook.sh"))
			x.remove(x.modules, "010-web/hooks/hook.sh")
			x.remove(x.globals, "hooks/hook.sh")
		}, []string{global + "a.example.com", global + "b.example.com"}},
		"the record of another binding of the hook is damaged": {func(x *bench) {
			x.damage(store.BindingKey("web", "hooks/hook.sh", "pods"))
			x.remove(x.modules, "010-web/hooks/hook.sh")
		}, []string{web + "a.example.com", web + "b.example.com"}},
		"the bindings of the deleted hook are detached": {func(x *bench) {
			x.remove(x.modules, "010-web/hooks/hook.sh")
			scantest.Update(t, x.s.DB, func(tx *store.Tx) error { return bindings.Detach(tx, "web") })
		}, nil},
	} {
		x := newBench(t, runner)
		c.change(x)
		scantest.Scan(t, x.s)
		var got []string
		for _, f := range x.find(x.restarted()) {
			got = append(got, f.Subject.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: stale bindings (-want +got):\n%s", name, diff)
		}
	}
}

// damage overwrites the record under k with bytes that cannot be decoded. At the end of the test, the record is deleted,
// because the check of the store would reject it.
func (x *bench) damage(k store.Key) {
	x.t.Helper()
	scantest.Update(x.t, x.s.DB, func(tx *store.Tx) error {
		if tx.Get(k) == nil {
			x.t.Errorf("there is no record %s", k)
		}
		tx.Put(k, []byte(`{"kind":`))
		return nil
	})
	x.t.Cleanup(func() {
		scantest.Update(x.t, x.s.DB, func(tx *store.Tx) error { tx.Delete(k); return nil })
	})
}

// remove deletes a file or directory.
func (x *bench) remove(dir, name string) {
	x.t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		x.t.Fatal(err)
	}
}

// rename renames the directory of a module.
func (x *bench) rename(from, to string) {
	x.t.Helper()
	if err := os.Rename(filepath.Join(x.modules, from), filepath.Join(x.modules, to)); err != nil {
		x.t.Fatal(err)
	}
}

func TestStaleWebhooksAreRemovedAtAStartAndNoOthers(t *testing.T) {
	x := newBench(t, scantest.Runner(t))
	all := x.attached()
	changes := store.Changes(x.s.DB, store.At(store.Bindings))
	restart := func(when string, want ...string) {
		t.Helper()
		if err := x.restarted().WithdrawStale(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, x.attached()); diff != "" {
			t.Errorf("%s: attached bindings (-want +got):\n%s", when, diff)
		}
	}
	restart("nothing has changed", all...)
	if len(changes) > 0 {
		t.Error("nothing has changed, and bindings are written")
	}
	x.remove(x.modules, "010-web/hooks/hook.sh")
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return name == "web/hooks/hook.sh a.example.com" || name == "web/hooks/hook.sh b.example.com"
	})
	if len(left) != len(all)-2 {
		t.Fatalf("bindings %q", all)
	}
	restart("the hook is deleted", left...)
	restart("the next start", left...)
}

func TestAWebhookStaysIfItsHookIsReadAgainMeanwhile(t *testing.T) {
	x := newBench(t, scantest.Runner(t))
	all := x.attached()
	scantest.Program(t, x.modules, "010-web/hooks/hook.sh", program(`{"configVersion":"v1",`+pods+`}`))
	s := x.restarted()
	found := x.find(s)
	if len(found) != 2 {
		t.Fatalf("stale bindings %+v, want 2", found)
	}
	lost := errors.New("the transaction does not commit")
	if err := x.s.DB.Update(func(tx *store.Tx) error { return errors.Join(s.Withdraw(tx, found), lost) }); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, x.attached()); diff != "" {
		t.Errorf("without a commit, attached are (-want +got):\n%s", diff)
	}
	scantest.Update(t, x.s.DB, func(tx *store.Tx) error { // simulates a run of the module, which saves the hook again
		h, _, err := store.Load[store.Hook](tx, store.HookKey("web", "hooks/hook.sh"))
		h.Config = json.RawMessage(config + " ")
		return errors.Join(err, store.Save(tx, store.HookKey("web", "hooks/hook.sh"), h))
	})
	scantest.Update(t, x.s.DB, func(tx *store.Tx) error { return s.Withdraw(tx, found) })
	if diff := cmp.Diff(all, x.attached()); diff != "" {
		t.Errorf("after the hook was read again, attached are (-want +got):\n%s", diff)
	}
}
