package triggers

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// tableText returns the bindings of a table in short form.
func tableText(t webhook.Table) (text []string) {
	for _, a := range t.Admissions {
		kind := "validating"
		if a.Mutating {
			kind = "mutating"
		}
		text = append(text, kind+" "+a.Module+"/"+a.Hook+" "+a.Binding+" "+a.Config.Name)
	}
	for _, c := range t.Conversions {
		text = append(text, "conversion "+c.Module+"/"+c.Hook+" "+c.Binding+" "+c.Config.CRDName)
	}
	if t.Complete {
		text = append(text, "complete")
	}
	return text
}

func TestTheAPIServerCallsTheAttachedWebhooksOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		update := func(do func(*store.Tx) error) {
			t.Helper()
			if err := db.Update(do); err != nil {
				t.Fatal(err)
			}
		}
		save := func(module, id string, kind store.BindingKind, config any) {
			t.Helper()
			update(func(tx *store.Tx) error { return saveBinding(tx, module, id, kind, config, 1) })
		}
		save("web", "v.example.com", store.Validating, hook.AdmissionBinding{Name: "v.example.com"})
		save("web", "pods", store.Kubernetes, hook.KubernetesBinding{Name: "pods", Kind: "Pod"})
		save("", "m.example.com", store.Mutating, hook.AdmissionBinding{Name: "m.example.com"})
		save("db", "c", store.Conversion, hook.ConversionBinding{Name: "c", CRDName: "dbs.example.com"})

		var served [][]string
		w := NewWebhook(db, func(table webhook.Table) { served = append(served, tableText(table)) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		expect := func(when string, want ...[]string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, served); diff != "" {
				t.Errorf("%s: served tables (-want +got):\n%s", when, diff)
			}
			served = nil
		}
		all := []string{"mutating /h m.example.com m.example.com", "validating web/h v.example.com v.example.com", "conversion db/h c dbs.example.com"}
		expect("before the first converge", all)
		save("db", "tick", store.Schedule, hook.ScheduleBinding{Name: "tick", Crontab: "* * * * *"})
		expect("a schedule is attached")
		startup := func(start, converged uint64) {
			t.Helper()
			update(func(tx *store.Tx) error {
				return store.Save(tx, store.StartupKey(), store.Startup{StartRun: start, Converged: converged})
			})
		}
		startup(1, 1)
		expect("after the first converge", append(all, "complete"))
		startup(3, 1)
		expect("before the converge of the next start", all)
		startup(3, 3)
		expect("after the converge of the next start", append(all, "complete"))
		update(func(tx *store.Tx) error {
			b, _, err := store.Load[store.Binding](tx, store.BindingKey("web", "h", "v.example.com"))
			if err != nil {
				return err
			}
			b.Detached = true
			return store.Save(tx, store.BindingKey("web", "h", "v.example.com"), b)
		})
		expect("a module is being deleted", []string{all[0], all[2], "complete"})
		update(func(tx *store.Tx) error {
			tx.Delete(store.BindingKey("db", "h", "c"))
			tx.Delete(store.BindingKey("", "h", "m.example.com"))
			return nil
		})
		expect("no webhook is left", []string{"complete"})
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the trigger ended with %v", err)
		}
	})
}

func TestAWebhookInTheStoreThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	if err := db.Update(func(tx *store.Tx) error {
		return saveBinding(tx, "web", "v.example.com", store.Validating, []int{1}, 1)
	}); err != nil {
		t.Fatal(err)
	}
	served := false
	err := NewWebhook(db, func(webhook.Table) { served = true }).Run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "read webhook bindings: binding v.example.com in the store: ") || served {
		t.Errorf("got %v, served %t", err, served)
	}
}
