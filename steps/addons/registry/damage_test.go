package registry_test

import (
	"testing"

	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// damage makes the record under the key k unreadable.
func damage(t *testing.T, db *store.DB, k store.Key) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		if tx.Get(k) == nil {
			t.Errorf("there is no record %s", k)
		}
		tx.Put(k, []byte("[1]"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func recovered(t *testing.T, db *store.DB, name string) (moved, freed bool) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		lost, unregistered, err := registry.Recover(tx, registry.Cluster, name)
		moved, freed = lost != nil, unregistered
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return moved, freed
}

func TestAConfigurationWhoseRecordIsDamagedIsUnknownAndOwnsNothing(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "first", redis)
	process(t, db, "second", acc)
	if moved, freed := recovered(t, db, "first"); moved || freed {
		t.Errorf("with a readable record: moved %t, freed %t", moved, freed)
	}
	for _, name := range []string{"first", "second"} {
		damage(t, db, store.ConfigurationKey("", name))
	}
	wantRegistered(t, db, "X redis 0.0.1 first", "Y acc 0.0.1 second")
	if moved, freed := recovered(t, db, "first"); !moved || !freed {
		t.Errorf("moved %t, freed %t", moved, freed)
	}
	wantRegistered(t, db, "Y acc 0.0.1 second")
	if moved, freed := recovered(t, db, "second"); !moved || !freed {
		t.Errorf("the second one: moved %t, freed %t", moved, freed)
	}
	wantRegistered(t, db)
	if err := registry.Sweep(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if n, err := contents(db); len(n) != 0 || err != nil {
		t.Errorf("contents are kept for nobody: %v, %v", n, err)
	}
	if ready, _ := process(t, db, "first", redis); !ready {
		t.Error("first is not ready again")
	}
	wantRegistered(t, db, "X redis 0.0.1 first")
}

func TestAnAddonWhoseRecordIsDamagedStaysRegistered(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "first", redis)
	sameName := redis
	sameName.id = "Z"
	for what, k := range map[string]store.Key{
		"the addon": store.AddonKey("", "X"), "its name": store.AddonNameKey("", "redis", "0.0.1"),
	} {
		damage(t, db, k)
		wantRegistered(t, db, "X redis 0.0.1 first")
		for _, o := range []offer{redis, sameName} {
			if ready, _ := process(t, db, "second", o); ready {
				t.Errorf("%s is damaged: another configuration is ready with addon %s", what, o.id)
			}
		}
		if ready, freed := process(t, db, "first", redis); !ready || freed {
			t.Errorf("%s is damaged: its owner is ready %t, has freed something %t", what, ready, freed)
		}
	}
}

// TestAnAddonIsUnregisteredIfItsRecordAndTheRecordOfItsConfigurationAreDamaged also registers the ID of the addon under
// another name. The record of the earlier name must not cause a conflict.
func TestAnAddonIsUnregisteredIfItsRecordAndTheRecordOfItsConfigurationAreDamaged(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "first", redis)
	process(t, db, "second", acc)
	damage(t, db, store.ConfigurationKey("", "first"))
	damage(t, db, store.AddonKey("", "X"))
	damage(t, db, store.AddonKey("", "Y"))
	if moved, freed := recovered(t, db, "first"); !moved || !freed {
		t.Errorf("moved %t, freed %t", moved, freed)
	}
	wantRegistered(t, db, "Y acc 0.0.1 second")
	if err := db.View(func(tx *store.Tx) error {
		if n, err := registry.Count(tx); n[registry.Cluster] != 1 || err != nil {
			t.Errorf("%v addons are counted, want 1: %v", n, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	sameID, sameName := redis, redis
	sameID.name, sameName.id = "other", "Z"
	if ready, _ := process(t, db, "third", sameID); !ready {
		t.Error("third is not ready")
	}
	if ready, _ := process(t, db, "fourth", sameName); !ready {
		t.Error("fourth is not ready")
	}
	if ready, freed := process(t, db, "second", acc); !ready || freed {
		t.Errorf("second is ready %t, has freed something %t", ready, freed)
	}
	wantRegistered(t, db, "X other 0.0.1 third", "Y acc 0.0.1 second", "Z redis 0.0.1 fourth")
}
