package triggers

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// saveBinding writes the record of a binding of the hook h of the given module.
func saveBinding(tx *store.Tx, module, id string, kind store.BindingKind, config any, in uint64) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return store.Save(tx, store.BindingKey(module, "h", id), store.Binding{Kind: kind, Config: text, Queue: "main", AttachedIn: in})
}

func TestReadingBindingsAgainDecodesOnlyThoseThatChanged(t *testing.T) {
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var r bindingReader
	read := func() (all []*binding) {
		t.Helper()
		if err := db.View(func(tx *store.Tx) error {
			for b, err := range r.all(tx) {
				if err != nil {
					return err
				}
				all = append(all, b)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	save := func(module string, in uint64) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			return saveBinding(tx, module, "b", store.Schedule, hook.ScheduleBinding{Name: "b"}, in)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, module := range []string{"a", "b", "c"} {
		save(module, 1)
	}
	before := read()
	save("b", 2)
	if err := db.Update(func(tx *store.Tx) error { tx.Delete(store.BindingKey("a", "h", "b")); return nil }); err != nil {
		t.Fatal(err)
	}
	after := read()
	var got []string
	for _, b := range after {
		got = append(got, fmt.Sprint(b.subject.Module, " ", b.AttachedIn, " ", slices.Contains(before, b)))
	}
	if diff := cmp.Diff([]string{"b 2 false", "c 1 true"}, got); diff != "" {
		t.Error(diff)
	}
	if len(r.known) != 2 {
		t.Errorf("%d bindings are kept in memory", len(r.known))
	}
}

// BenchmarkReadBindings measures how long the triggers Kube, Schedule and Webhook need to read the
// bindings after a module was attached, while 2,000 bindings of other modules are attached.
func BenchmarkReadBindings(b *testing.B) {
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	attach := func(module string, in uint64) {
		b.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			for i := range 3 {
				id := fmt.Sprint("pods-", i)
				if err := saveBinding(tx, module, id, store.Kubernetes, hook.KubernetesBinding{Name: id, APIVersion: "v1", Kind: "Pod"}, in); err != nil {
					return err
				}
			}
			return saveBinding(tx, module, "tick", store.Schedule, hook.ScheduleBinding{Name: "tick", Crontab: "0 3 * * *"}, in)
		}); err != nil {
			b.Fatal(err)
		}
	}
	const modules = 500
	for i := range modules {
		attach(fmt.Sprint("module-", i), 1)
	}
	k := NewKube(db, nil, nil, nil, kube.Observer{}, zerolog.Nop())
	s := NewSchedule(db, nil, Skip, zerolog.Nop())
	w := NewWebhook(db, nil)
	tickers := map[graph.Subject]*ticker{}
	follow := func() {
		b.Helper()
		if _, err := k.readBindings(); err != nil {
			b.Fatal(err)
		}
		if err := s.follow(tickers); err != nil {
			b.Fatal(err)
		}
		if _, err := w.attached(); err != nil {
			b.Fatal(err)
		}
	}
	follow()
	var took []float64
	for n := uint64(2); b.Loop(); n++ {
		attach(fmt.Sprint("module-", n%modules), n)
		begin := time.Now()
		follow()
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "ms/attach")
	b.ReportMetric(0, "ns/op")
}
