package triggers

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/store/storetest"
)

// checks is a Limiter that counts the checks.
type checks int

func (c *checks) RateLimitsChanged() { *c++ }

func TestDeferredTasksAreCheckedWhenTheSettingsOfAHookChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		save := func(name, settings string, longest time.Duration) func(*store.Tx) error {
			return func(tx *store.Tx) error {
				config := json.RawMessage(`{"configVersion":"v1","onStartup":1` + settings + `}`)
				return store.Save(tx, store.HookKey("web", name), store.Hook{Config: config, Longest: longest})
			}
		}
		const slow, fast = `,"settings":{"executionMinInterval":"30s"}`, `,"settings":{"executionMinInterval":"3s"}`
		update := func(change func(*store.Tx) error) {
			t.Helper()
			if err := db.Update(change); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		update(save("a.sh", slow, 0))
		var n checks
		l := NewRateLimits(db, &n)
		update(save("a.sh", fast, 0)) // a change can occur before Run reads the settings
		ctx, cancel := context.WithCancel(t.Context())
		go l.Run(ctx)
		if synctest.Wait(); n != 1 {
			t.Errorf("after a change before Run, there are %d checks, want 1", n)
		}
		for _, step := range []struct {
			what   string
			change func(*store.Tx) error
			want   checks
		}{
			{"another duration", save("a.sh", fast, time.Second), 0},
			{"another limit", save("a.sh", slow, time.Second), 1},
			{"a new hook without a limit", save("b.sh", "", 0), 1},
			{"a limit of this hook", save("b.sh", slow, 0), 1},
			{"a deleted hook with a limit", func(tx *store.Tx) error { tx.Delete(store.HookKey("web", "a.sh")); return nil }, 1},
			{"a record that cannot be read", func(tx *store.Tx) error { tx.Put(store.HookKey("web", "b.sh"), []byte("{")); return nil }, 1},
			{"a record of another table", func(tx *store.Tx) error { return store.Save(tx, store.ModuleKey("web"), store.Module{}) }, 0},
		} {
			n = 0
			if update(step.change); n != step.want {
				t.Errorf("%s: %d checks, want %d", step.what, n, step.want)
			}
		}
		update(func(tx *store.Tx) error { tx.Delete(store.HookKey("web", "b.sh")); return nil }) // so that the check of the store succeeds
		cancel()
		synctest.Wait()
	})
}
