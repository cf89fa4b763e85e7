package hooks_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/hooks"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

func TestMetricsStartAtZeroWithOtherCodeOrConfigOfTheHook(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	recorder := &hookmetrics.Recorder{Observer: ignored{}}
	keep := func(digest, config string) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			_, err := hooks.Found{Hooks: map[string]store.Hook{
				"h.sh": {Digest: digest, Config: json.RawMessage(config)}, "i.sh": {Digest: "i", Config: json.RawMessage(`{}`)},
			}}.Save(tx, "a")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string) {
		t.Helper()
		ops, err := recorder.Parser("a", name)([]byte(`{"name":"` + strings.ReplaceAll(name, ".", "_") + `","add":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(func(tx *store.Tx) error { return recorder.Record(tx, "a", name, ops) }); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, names ...string) {
		t.Helper()
		if err := db.View(func(tx *store.Tx) error {
			snapshot, err := hookmetrics.Snapshot(tx)
			if d := cmp.Diff(names, slices.Sorted(maps.Keys(snapshot.Families))); d != "" {
				t.Errorf("%s (-want +got):\n%s", when, d)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	keep("1", `{}`)
	run("h.sh")
	run("i.sh")
	keep("1", `{}`)
	want("the same code", "h_sh", "i_sh")
	keep("2", `{}`)
	want("other code", "i_sh")
	run("h.sh")
	want("the next run", "h_sh", "i_sh")
	keep("2", `{"onStartup":1}`)
	want("another config", "i_sh")
}

// ignored ignores dropped metric operations.
type ignored struct{}

func (ignored) MetricsDropped(hookmetrics.Dropped) {}
