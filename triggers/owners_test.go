package triggers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestAnOwnerThatMissedAChangeKeepsItsStateDuringChangesForOthers(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.attachLate(`,"keepFullObjectsInMemory":true`)
	d.changed("20", kube.Change{Type: kube.Modified, Object: pod("a", 11, "y")})
	d.want("Modified a@11")
	change := kube.Change{Type: kube.Modified, Object: pod("a", 21, "z"), Filter: label.Filter, Owners: us, Others: []string{late}}
	if err := d.Changed(t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: "30", Changes: []kube.Change{change}}); err != nil {
		t.Fatal(err)
	}
	d.want("Modified a@21")
	d.resumed("30", pod("a", 21, "z"), pod("b", 2, "x"))
	d.want("late: Modified a@21")
}

func TestABindingThatIsAttachedAgainIsNoOwnerUntilItIsListed(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.attachLate("")
	d.update(func(tx *store.Tx) error {
		s := SubjectOf(late)
		b, _, err := store.Load[store.Binding](tx, store.BindingKey(s.Module, s.Hook, s.Binding))
		if err != nil {
			return err
		}
		b.AttachedIn = 2
		return store.Save(tx, store.BindingKey(s.Module, s.Hook, s.Binding), b)
	})
	d.changed("20", kube.Change{Type: kube.Modified, Object: pod("a", 11, "y")})
	d.want("Modified a@11")
	if d.knows(label, SubjectOf(late), 2) || !d.knows(label, SubjectOf(late), 0) {
		t.Error("before its list, the cursor knows the binding")
	}
	d.listed(kube.Joined, "20")
	if err := d.Listed(t.Context(), kube.List{View: label, Cause: kube.Joined, Owners: []string{owner(graph.Subject{Module: "gone"}), late}}); err != nil {
		t.Fatal(err)
	}
	if !d.knows(label, SubjectOf(late), 2) {
		t.Error("after its list, the cursor does not know the binding")
	}
	if d.knows(label, graph.Subject{Module: "gone"}, 0) {
		t.Error("the cursor knows a binding that is not attached")
	}
	d.changed("30", kube.Change{Type: kube.Modified, Object: pod("a", 21, "z")})
	d.want("Modified a@21", "late: Modified a@21")
}

func TestAnEventHasTheTriggerAndTheSettingsOfItsBinding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		module, settings string
		want             graph.Trigger
		allowed          bool
	}{
		"a global hook":                    {"", "", lifecycle.OnGlobalKubeEvent, false},
		"a module hook":                    {"m", "", lifecycle.OnModuleKubeEvent, false},
		"a hook that may fail":             {"m", `,"allowFailure":true`, lifecycle.OnModuleKubeEvent, true},
		"a global hook that may fail, too": {"", `,"allowFailure":true`, lifecycle.OnGlobalKubeEvent, true},
	} {
		d := newTestReceiver(t)
		s := graph.Subject{Module: test.module, Hook: "hooks/g", Binding: "pods"}
		d.update(func(tx *store.Tx) error {
			config := `{"name":"pods","kind":"Pod","executeHookOnEvent":["Added"]` + test.settings + `}`
			return store.Save(tx, store.BindingKey(s.Module, s.Hook, s.Binding), store.Binding{Kind: store.Kubernetes, Config: json.RawMessage(config), Queue: "of-g"})
		})
		change := kube.Change{Type: kube.Added, Object: pod("a", 11, "x"), Filter: label.Filter, Owners: []string{owner(s)}}
		if err := d.Changed(t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: "20", Changes: []kube.Change{change}}); err != nil {
			t.Fatal(err)
		}
		if len(d.events) != 1 {
			t.Fatalf("%s: there are %d events", name, len(d.events))
		}
		ev := d.events[0]
		if ev.On != test.want || ev.Subject != s || ev.Queue != "of-g" || ev.AllowFailure != test.allowed || ev.NoBatch {
			t.Errorf("%s: the event is %+v", name, ev)
		}
		cause := store.Cause{Object: "Pod ns/a", ResourceVersion: "11", Event: "Added"}
		if diff := cmp.Diff(cause, ev.Cause); diff != "" {
			t.Errorf("%s: the cause (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnItemIsReducedOnlyAsFarAsItMustBe(t *testing.T) {
	t.Parallel()
	o := pod("a", 1, "x")
	o.Raw = json.RawMessage(`{"data":"` + strings.Repeat("x", 500) + `"}`)
	const identity = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"ns","uid":"uid-a"}}`
	for name, test := range map[string]struct {
		full   bool
		result string
		most   int
		want   string
	}{
		"the object is too large":             {true, `"x"`, 200, `{"filterResult":"x","object":` + identity + `}`},
		"the result is too large as well":     {true, `"` + strings.Repeat("r", 500) + `"`, 200, `{"object":` + identity + `}`},
		"only the result, which is too large": {false, `"` + strings.Repeat("r", 500) + `"`, 200, `{}`},
		"a result that fits exactly":          {false, `"12345"`, len(`{"filterResult":"12345"}`), `{"filterResult":"12345"}`},
	} {
		item := hook.Item{FilterResult: json.RawMessage(test.result)}
		if test.full {
			item.Object = o.Raw
		}
		payload, err := reducedItem(item, o, pods, test.most)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(payload, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
