package stale_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
)

// converts returns the configuration of a hook with a conversion binding of this name.
func converts(name, crd string) string {
	return `{"configVersion":"v1","kubernetesCustomResourceConversion":[{"name":"` + name + `","crdName":"` + crd + `","conversions":[{"fromVersion":"v1","toVersion":"v2"}]}]}`
}

// Between the runs of two modules, the API server must not return objects that no hook has converted. So a conversion
// moves from one module to the other in one transaction.
func TestAConversionIsReplacedBeforeTheRunsOfItsModules(t *testing.T) {
	const was = "web/hooks/hook.sh up"
	runner := scantest.Runner(t)
	for name, c := range map[string]struct {
		change  func(*bench)
		modules []string // modules to run
		want    []string // new conversion bindings
		stays   bool     // the old binding stays if complete is false, because an unknown hook may convert the objects
	}{
		"moved to another module": {func(x *bench) {
			x.remove(x.modules, "010-web/hooks/hook.sh")
			scantest.Program(t, x.modules, "020-db/hooks/hook.sh", program(converts("up", "things.x.io")))
		}, []string{"web", "db"}, []string{"db/hooks/hook.sh up"}, false},
		"moved to another module, and its hook does other things now": {func(x *bench) {
			scantest.Program(t, x.modules, "010-web/hooks/hook.sh", program(`{"configVersion":"v1",`+pods+`}`))
			scantest.Program(t, x.modules, "020-db/hooks/hook.sh", program(converts("up", "things.x.io")))
		}, []string{"web", "db"}, []string{"db/hooks/hook.sh up"}, false},
		"moved to a module with another name": {func(x *bench) {
			x.rename("010-web", "010-site")
		}, []string{"site", "db"}, []string{"site/hooks/hook.sh up"}, false},
		"renamed hook": {func(x *bench) {
			x.remove(x.modules, "010-web/hooks/hook.sh")
			scantest.Program(t, x.modules, "010-web/hooks/other.sh", program(converts("up", "things.x.io")))
		}, []string{"web", "db"}, []string{"web/hooks/other.sh up"}, false},
		"renamed binding": {func(x *bench) {
			scantest.Program(t, x.modules, "010-web/hooks/hook.sh", program(converts("upgrade", "things.x.io")))
		}, []string{"web", "db"}, []string{"web/hooks/hook.sh upgrade"}, false},
		"moved to a module that does not run": {func(x *bench) {
			x.remove(x.modules, "010-web/hooks/hook.sh")
			scantest.Program(t, x.modules, "020-db/hooks/hook.sh", program(converts("up", "things.x.io")))
		}, []string{"web"}, nil, true},
		"removed": {func(x *bench) {
			x.remove(x.modules, "010-web/hooks/hook.sh")
		}, []string{"web", "db"}, nil, true},
		"another conversion in another module": {func(x *bench) {
			x.remove(x.modules, "010-web/hooks/hook.sh")
			scantest.Program(t, x.modules, "020-db/hooks/hook.sh", program(converts("up", "others.x.io")))
		}, []string{"web", "db"}, nil, true},
		"copied to another module": {func(x *bench) {
			scantest.Program(t, x.modules, "020-db/hooks/hook.sh", program(converts("up", "things.x.io")))
		}, []string{"web", "db"}, []string{was}, false},
	} {
		for _, complete := range []bool{false, true} {
			x := newBench(t, runner)
			want := x.attached()
			c.change(x)
			x.replace(c.modules, complete)
			if !c.stays || complete {
				want = slices.DeleteFunc(want, func(name string) bool { return name == was })
			}
			got, want := x.attached(), append(want, c.want...)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, complete %t: attached bindings (-want +got):\n%s", name, complete, diff)
			}
		}
	}
}

// The run of a module attaches the other bindings of a hook, and runs onStartup again, only if it finds that the hook is
// new.
func TestAHookWithAReplacementIsNewForTheRunOfItsModule(t *testing.T) {
	x := newBench(t, scantest.Runner(t))
	x.remove(x.modules, "010-web/hooks/hook.sh")
	scantest.Program(t, x.modules, "020-db/hooks/hook.sh", program(converts("up", "things.x.io")))
	x.replace([]string{"web", "db"}, true)
	m, _ := x.s.Modules.Disk().Find("db")
	digest, err := x.s.Modules.CodeOf("db")
	if err != nil {
		t.Fatal(err)
	}
	asked, err := x.configs().Ask(t.Context(), "db", hook.Module, m.Path, digest)
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, x.s.DB, func(tx *store.Tx) error {
		record, _, err := store.Load[store.Module](tx, store.ModuleKey("db"))
		if err != nil || record.State != store.On {
			t.Errorf("the state of the module is %q, %v", record.State, err)
		}
		changed, err := asked.Save(tx, "db")
		if !changed {
			t.Error("the hook is not new")
		}
		return err
	})
}

// The discovery saves the new configuration of the hook, but the kubernetes binding is still attached with the earlier
// one.
func TestAHookWithAReplacementRunsOnlyAfterItsBindingsAreAttachedAgain(t *testing.T) {
	x := newBench(t, scantest.Runner(t))
	scantest.Program(t, x.modules, "010-web/hooks/hook.sh", program(`{"configVersion":"v1",`+pods+`,`+strings.Replace(up, `"up"`, `"upgrade"`, 1)+`}`))
	x.replace([]string{"web", "db"}, true)
	if err := x.s.DB.View(func(tx *store.Tx) error {
		for module, want := range map[string]uint64{"web": store.FormerCode, "": 0} {
			attached, err := store.LoadBindings(tx, module, "hooks/hook.sh")
			if err != nil {
				return err
			}
			for id, b := range attached {
				if b.Kind == store.Kubernetes && b.AttachedInStart != want {
					t.Errorf("module %q: binding %s is attached in start %d, want %d", module, id, b.AttachedInStart, want)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The values patches of a hook are marked as outdated if the configuration of the hook has changed, even if its code is
// the same and the discovery has already saved the configuration.
func TestTheRunOfAModuleSeesThatAHookWithAReplacementHasChanged(t *testing.T) {
	x := newBench(t, scantest.Runner(t))
	dir := filepath.Join(x.modules, "020-db")
	scantest.Write(t, dir, "values.yaml", `#{"configVersion":"v1","onStartup":1}`)
	scantest.Program(t, dir, "hooks/hook.sh", "#!/bin/sh\ncut -c2- ${0%/hooks/*}/values.yaml\n")
	scantest.Scan(t, x.s)
	x.attach("db", hook.Module, dir)
	scantest.Update(t, x.s.DB, func(tx *store.Tx) error {
		patch := values.Saved{Op: values.Op{Op: "add", Path: "/db/size", Value: json.RawMessage("1")}, Hook: "db/hooks/hook.sh"}
		return store.Save(tx, store.SavedKey("db"), []values.Saved{patch})
	})
	x.remove(x.modules, "010-web/hooks/hook.sh")
	scantest.Write(t, dir, "values.yaml", `#{"configVersion":"v1","onStartup":1,`+up+`}`)
	x.replace([]string{"web", "db"}, true)
	if !slices.Contains(x.attached(), "db/hooks/hook.sh up") {
		t.Fatalf("attached bindings: %q", x.attached())
	}
	x.attach("db", hook.Module, dir)
	if err := x.s.DB.View(func(tx *store.Tx) error {
		saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey("db"))
		if len(saved) != 1 || !saved[0].Outdated {
			t.Errorf("the saved patches are %+v", saved)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
