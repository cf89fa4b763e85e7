package webhooks

import (
	"os"
	"testing"

	"github.com/rs/zerolog"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

func TestTheRejectionsOfWithdrawnWebhooksAreForgottenAtOnce(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Memory(t)
	stored := func() int {
		t.Helper()
		var problems []store.Problem
		if err := db.View(func(tx *store.Tx) (err error) {
			problems, err = store.AllProblems(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return len(problems)
	}
	w := New(Options{Settings: settingsOf(c.Namespace(t)), Log: zerolog.Nop(), DB: db, Client: client})
	w.inForce(webhook.Table{
		Admissions: []webhook.Admission{{Asked: webhook.Asked{Hook: "a.sh"}, Config: hook.AdmissionBinding{FailurePolicy: admissionv1.Fail}}},
	})
	if n := stored(); n != 1 {
		t.Fatalf("%d rejections are stored", n)
	}
	if _, _, err := w.Withdraw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := stored(); n != 0 {
		t.Errorf("after the withdrawal, %d rejections are stored", n)
	}
}
