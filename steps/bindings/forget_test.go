package bindings_test

import (
	"bytes"
	"errors"
	"testing"

	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/hooks"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

func keepAll(tx *store.Tx, module, name string) error {
	subject := graph.Subject{Module: module, Hook: name, Binding: "b"}
	by := sections.Author(module, name)
	recorder := &hookmetrics.Recorder{}
	ops, err := recorder.Parser(module, name)([]byte(`{"name":"x_` + sections.Of(module) + `","add":1}{"group":"` + module + `","name":"y_` + sections.Of(module) + `","set":1}`))
	return errors.Join(
		err,
		store.Save(tx, store.HookKey(module, name), store.Hook{Digest: "1"}),
		store.Save(tx, store.BindingKey(module, name, "b"), store.Binding{Kind: store.Schedule}),
		store.Save(tx, store.TickKey(subject), tx.Now()),
		store.Save(tx, store.BucketKey(subject), store.Bucket{Full: tx.Now()}),
		store.Save(tx, store.SavedKey(sections.Of(module)), []values.Saved{{Op: values.Op{Op: "remove", Path: "/x"}, Hook: by}}),
		store.Save(tx, store.ReleaseKey(module), store.Release{}),
		recorder.Record(tx, module, name, ops),
		keepGlobal(tx, by),
	)
}

func keepGlobal(tx *store.Tx, by string) error {
	saved, _, err := store.Load[[]values.Saved](tx, store.SavedKey(values.Global))
	return errors.Join(err, store.Save(tx, store.SavedKey(values.Global),
		append(saved, values.Saved{Op: values.Op{Op: "remove", Path: "/global/" + by}, Hook: by})))
}

func named(t *testing.T, db *store.DB, text string) (found []string) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		for table := store.Table(1); table <= store.Notes; table++ {
			for k, v := range tx.Range(store.At(table)) {
				if bytes.Contains(k, []byte(text)) || bytes.Contains(v, []byte(text)) {
					found = append(found, k.String())
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestNothingIsLeftOfAModuleThatIsForgotten(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	update(t, db, func(tx *store.Tx) error {
		return errors.Join(keepAll(tx, "stays", "hook.sh"), keepAll(tx, "goes", "hook.sh"))
	})
	before := len(named(t, db, "stays"))
	update(t, db, func(tx *store.Tx) error { return bindings.Forget(tx, "goes") })
	if left := named(t, db, "goes"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if n := len(named(t, db, "stays")); n != before || n == 0 {
		t.Errorf("%d records of another module, %d before", n, before)
	}
}

// A release without a module, or a directory of a broken module, can have a name whose section is that of a module, or
// the global section.
func TestSectionsOfOthersAreNotForgotten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a-1", "a--1", "a.1", "global"} {
		db := storetest.Memory(t)
		update(t, db, func(tx *store.Tx) error {
			return errors.Join(keepAll(tx, "a1", "hook.sh"), keepAll(tx, "", "global.sh"))
		})
		before := [2]int{len(named(t, db, "hook.sh")), len(named(t, db, "global.sh"))}
		update(t, db, func(tx *store.Tx) error { return bindings.Forget(tx, name) })
		if left := [2]int{len(named(t, db, "hook.sh")), len(named(t, db, "global.sh"))}; left != before {
			t.Errorf("%s: %d records of the module and %d of the global hook, %d before", name, left[0], left[1], before)
		}
	}
}

func TestNothingIsLeftOfAHookThatIsGone(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	update(t, db, func(tx *store.Tx) error {
		overrides := map[string]values.EnabledOverride{"someEnabled": {Hook: sections.Author("", "gone.sh")}}
		return errors.Join(keepAll(tx, "", "gone.sh"), store.Save(tx, store.EnabledOverridesKey(), overrides))
	})
	update(t, db, func(tx *store.Tx) error {
		if _, err := (hooks.Found{}).Save(tx, ""); err != nil {
			return err
		}
		_, err := bindings.Attach(tx, "", nil)
		return err
	})
	if left := named(t, db, "gone.sh"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func update(t *testing.T, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}
