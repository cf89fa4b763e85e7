package triggers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestAnOwnerIsTheBindingThatItNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[^\x00]*`)
		s := graph.Subject{Module: name.Draw(t, "module"), Hook: name.Draw(t, "hook"), Binding: name.Draw(t, "binding")}
		if got := SubjectOf(owner(s)); got != s {
			t.Errorf("%+v is named %q, which names %+v", s, owner(s), got)
		}
	})
	if got := SubjectOf("module"); got != (graph.Subject{Module: "module"}) {
		t.Errorf("a name without a hook is that of %+v", got)
	}
}

func TestAnOwnerKnowsACursorOnlyInTheEpochInWhichItWasAttached(t *testing.T) {
	t.Parallel()
	s := graph.Subject{Module: "m", Hook: "h", Binding: "pods"}
	m := mark{Owners: map[string]uint64{s.String(): 3}}
	for name, test := range map[string]struct {
		subject    graph.Subject
		attachedIn uint64
		want       bool
	}{
		"the same epoch":  {s, 3, true},
		"a later epoch":   {s, 4, false},
		"another binding": {graph.Subject{Module: "m", Hook: "h", Binding: "nodes"}, 3, false},
		"never attached":  {graph.Subject{Module: "m", Hook: "h", Binding: "nodes"}, 0, false},
	} {
		if got := m.knows(test.subject, test.attachedIn); got != test.want {
			t.Errorf("%s: known is %t", name, got)
		}
	}
	if (mark{}).knows(s, 0) {
		t.Error("an empty mark knows an owner")
	}
}

func TestAMarkWithoutABindingLeavesTheOriginalUnchanged(t *testing.T) {
	t.Parallel()
	m := mark{Behind: []string{"a", "b", "c", "a"}}
	if got := m.without("a", "c"); !slices.Equal(got.Behind, []string{"b"}) {
		t.Errorf("behind are %q", got.Behind)
	}
	if !slices.Equal(m.Behind, []string{"a", "b", "c", "a"}) {
		t.Errorf("in the original, behind are %q", m.Behind)
	}
}

func TestStatesOfAnObjectAreEqualByUIDAndChecksum(t *testing.T) {
	t.Parallel()
	state := func(uid, checksum string, gone bool) *delivered {
		return &delivered{UID: uid, Checksum: checksum, Gone: gone}
	}
	for name, test := range map[string]struct {
		a, b *delivered
		want bool
	}{
		"the same":                 {state("u", "x", false), state("u", "x", false), true},
		"with another result":      {&delivered{UID: "u", Checksum: "x", Result: json.RawMessage("1")}, state("u", "x", false), true},
		"another checksum":         {state("u", "x", false), state("u", "y", false), false},
		"another object":           {state("u", "x", false), state("v", "x", false), false},
		"a deleted object":         {state("u", "x", false), state("u", "x", true), false},
		"two deleted objects":      {state("u", "x", true), state("v", "y", true), true},
		"none and a deleted one":   {nil, state("u", "x", true), true},
		"none and an existing one": {nil, state("u", "x", false), false},
		"none twice":               {nil, nil, true},
	} {
		if test.a.equals(test.b) != test.want || test.b.equals(test.a) != test.want {
			t.Errorf("%s: equal is %t and %t, want %t", name, test.a.equals(test.b), test.b.equals(test.a), test.want)
		}
	}
}

// TestABindingThatIsBehindKeepsTheStateThatWasDeliveredToIt records bindings as behind, each with a random delivered
// state. Each of these bindings must have its own state, and all other bindings must have the current state. Bindings
// with the same state must share one entry.
func TestABindingThatIsBehindKeepsTheStateThatWasDeliveredToIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := &delivered{UID: "now", Checksum: "now"}
		want, states := map[string]*delivered{}, map[string]bool{}
		for i := range rapid.IntRange(0, 8).Draw(t, "bindings") {
			var state *delivered
			switch kind := rapid.SampledFrom([]string{"none", "gone", "a", "b"}).Draw(t, "state"); kind {
			case "none":
			case "gone":
				state = &delivered{UID: "u", Checksum: "x", Gone: true}
			default:
				state = &delivered{UID: "u", Checksum: kind, Behind: []behind{{Owners: map[string]uint64{"other": 1}}}}
			}
			name := fmt.Sprint("binding-", i)
			now.leave(state, name, 7)
			if want[name] = state; !state.exists() {
				want[name] = nil
			}
			states[fmt.Sprint(state.exists(), state != nil && state.Checksum == "b")] = true
		}
		if len(now.Behind) != len(states) {
			t.Errorf("%d states are kept for %d", len(now.Behind), len(states))
		}
		for name, state := range want {
			got := now.deliveredTo(name, 7)
			if got.exists() != state.exists() || got.exists() && (got.Checksum != state.Checksum || got.Gone || got.Behind != nil) {
				t.Errorf("%s has received %+v, want %+v", name, got, state)
			}
			if again := now.deliveredTo(name, 8); again != now {
				t.Errorf("attached again, %s has received %+v", name, again)
			}
		}
		if got := now.deliveredTo("another", 7); got != now {
			t.Errorf("another binding has received %+v", got)
		}
	})
	if got := (*delivered)(nil).deliveredTo("a", 1); got != nil {
		t.Errorf("of an unknown object, %+v was delivered", got)
	}
}

func TestADeletedObjectIsRememberedWithASmallFilterResult(t *testing.T) {
	t.Parallel()
	cursor := cursorKey(label)
	for name, test := range map[string]struct {
		object *kube.Object
		kept   bool
		raw    string
	}{
		"namespaced":           {&kube.Object{Namespace: "ns", Name: "a", UID: "u", Checksum: "x", FilterResult: json.RawMessage(`"r"`)}, true, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"ns","uid":"u"}}`},
		"of the cluster":       {&kube.Object{Name: "a", UID: "u", Checksum: "x", FilterResult: json.RawMessage(`"r"`)}, true, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u"}}`},
		"the largest result":   {&kube.Object{Name: "a", UID: "u", FilterResult: json.RawMessage(`"` + strings.Repeat("r", keptResult-2) + `"`)}, true, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u"}}`},
		"a result that is cut": {&kube.Object{Name: "a", UID: "u", FilterResult: json.RawMessage(`"` + strings.Repeat("r", keptResult-1) + `"`)}, false, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u"}}`},
	} {
		o, err := remembered(objectKey(cursor, test.object), newDelivered(test.object), pods)
		if err != nil {
			t.Fatal(err)
		}
		want := *test.object
		if want.Raw = json.RawMessage(test.raw); !test.kept {
			want.FilterResult = nil
		}
		if diff := cmp.Diff(&want, o); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestViewsHaveCursorsOfTheirOwn(t *testing.T) {
	t.Parallel()
	other := pods
	other.Namespace = "other"
	seen := map[string]string{}
	for name, v := range map[string]kube.View{
		"all": {Source: pods}, "filtered": label, "another filter": {Source: pods, Filter: ".spec"}, "another namespace": {Source: other},
	} {
		key := string(cursorKey(v))
		if before, taken := seen[key]; taken {
			t.Errorf("the views %s and %s have the same cursor", before, name)
		}
		seen[key] = name
		if again := string(cursorKey(v)); again != key {
			t.Errorf("the cursor of the view %s is %q and %q", name, key, again)
		}
	}
}

func TestASelectionHasAllSelectorsOfItsBinding(t *testing.T) {
	t.Parallel()
	labels, namespaces := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, &metav1.LabelSelector{MatchLabels: map[string]string{"c": "d"}}
	config := `{"kind":"Pod","apiVersion":"v1","nameSelector":["x","y"],"labelSelector":{"matchLabels":{"a":"b"}},"namespaces":{"names":["n"],"labelSelector":{"matchLabels":{"c":"d"}}}}`
	var c hook.KubernetesBinding
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	c.FieldSelector = hook.FieldSelector{{Field: "status.phase", Operator: "NotEquals", Value: "Failed"}}
	want := kube.Selection{
		APIVersion: "v1", Kind: "Pod", Names: []string{"x", "y"}, Labels: labels, Namespaces: []string{"n"}, NamespaceLabels: namespaces,
		Fields: []kube.FieldMatch{{Field: "status.phase", Operator: "NotEquals", Value: "Failed"}},
	}
	if diff := cmp.Diff(want, selection(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(kube.Selection{Kind: "Pod"}, selection(hook.KubernetesBinding{Kind: "Pod"})); diff != "" {
		t.Errorf("a binding without selectors (-want +got):\n%s", diff)
	}
}

// TestBindingsAreReadInTheOrderOfTheirNames also checks that a record that cannot be read ends the read with an error,
// and that the next read succeeds when the record is replaced.
func TestBindingsAreReadInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	var r bindingReader
	read := func() (names []string, failed error) {
		t.Helper()
		if err := db.View(func(tx *store.Tx) error {
			for b, err := range r.all(tx) {
				if failed = err; err != nil {
					return nil
				}
				names = append(names, b.subject.String())
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return names, failed
	}
	save := func(module string) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			return saveBinding(tx, module, "tick", store.Schedule, hook.ScheduleBinding{Name: "tick"}, 1)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, module := range []string{"c", "", "a"} {
		save(module)
	}
	want := []string{"h tick", "a/h tick", "c/h tick"}
	if names, err := read(); err != nil || !slices.Equal(names, want) {
		t.Errorf("the bindings are %q, error %v", names, err)
	}
	if err := db.Update(func(tx *store.Tx) error { tx.Put(store.BindingKey("a", "h", "tick"), []byte("{")); return nil }); err != nil {
		t.Fatal(err)
	}
	if names, err := read(); err == nil || !slices.Equal(names, want[:1]) {
		t.Errorf("with a damaged record, the bindings are %q, error %v", names, err)
	}
	save("a")
	if names, err := read(); err != nil || !slices.Equal(names, want) {
		t.Errorf("after the repair, the bindings are %q, error %v", names, err)
	}
}

func TestACrontabThatChangesTicksByTheNewOne(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	s := NewSchedule(db, nil, Skip, zerolog.Nop())
	tickers := map[graph.Subject]*ticker{}
	subject := graph.Subject{Module: "m", Hook: "hooks/h", Binding: "tick"}
	follow := func(crontab string, detached bool) *ticker {
		t.Helper()
		attachSchedule(t, db, crontab, detached)
		if err := s.follow(tickers); err != nil {
			t.Fatal(err)
		}
		return tickers[subject]
	}
	first := follow("0 3 * * *", false)
	if same := follow("0 3 * * *", false); same != first {
		t.Error("an unchanged binding begins again")
	}
	if changed := follow("@yearly", false); changed == first || changed.crontab != "@yearly" || changed.next.Month() != time.January {
		t.Errorf("the changed binding is %+v", changed)
	}
	invalid := follow("every day", false)
	if _, ok := earliest(tickers); ok || invalid == nil || invalid.schedule != nil {
		t.Errorf("an invalid crontab is %+v, and the next tick is known: %t", invalid, ok)
	}
	invalid.rewind(time.Time{}) // must not panic
	if detached := follow("0 3 * * *", true); detached != nil || len(tickers) != 0 {
		t.Errorf("a detached binding is %+v", detached)
	}
}

func TestAClockIsSetBackIfItIsAMinuteBeforeTheLastTick(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	schedule, err := hook.ParseCrontab("*/10 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	for back, want := range map[time.Duration]time.Time{
		-time.Hour: at.Add(10 * time.Minute), 0: at.Add(10 * time.Minute), time.Minute - 1: at.Add(10 * time.Minute), time.Minute: at, 25 * time.Minute: at.Add(-20 * time.Minute),
	} {
		ticks := &ticker{schedule: schedule, from: at, next: at.Add(10 * time.Minute)}
		if ticks.rewind(at.Add(-back)); !ticks.next.Equal(want) {
			t.Errorf("set back by %s, the next tick is at %s, want %s", back, ticks.next, want)
		}
	}
}

func TestDueBindingsTickInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	all := []graph.Subject{{Hook: "b"}, {Module: "a", Hook: "a", Binding: "x"}, {Module: "a", Hook: "a", Binding: "y"}, {Module: "a", Hook: "b", Binding: "a"}, {Module: "b", Hook: "a"}}
	set := map[graph.Subject]int{}
	for i, s := range all {
		set[s] = i
	}
	if got := inOrder(set); !slices.Equal(got, all) {
		t.Errorf("the order is %v, want %v", got, all)
	}
}

// TestTheObjectsOfAReleaseAreWatchedAgainWhenItsRevisionOrItsObjectsChange follows one release. No cluster is needed,
// because the watches do not run.
func TestTheObjectsOfAReleaseAreWatchedAgainWhenItsRevisionOrItsObjectsChange(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	a := NewAbsent(db, raiserFunc(func(*store.Tx, ...workflow.Event) error { return nil }), &kube.Kinds{}, "", kube.Observer{})
	release := store.Release{Revision: 1, Objects: []store.Object{store.Object(ref("a")), store.Object(ref("b"))}}
	save := func(change func()) {
		t.Helper()
		change()
		if err := db.Update(func(tx *store.Tx) error { return store.Save(tx, store.ReleaseKey("m"), release) }); err != nil {
			t.Fatal(err)
		}
	}
	follow := func() string {
		t.Helper()
		if err := a.follow(); err != nil {
			t.Fatal(err)
		}
		if len(a.stale) != 0 {
			t.Errorf("releases to read again: %v", a.stale)
		}
		return a.watched["m"]
	}
	if got := follow(); got != "" {
		t.Errorf("without a release, %q is watched", got)
	}
	save(func() {})
	if err := a.followAll(); err != nil || !a.stale["m"] {
		t.Errorf("at the start, the releases %v are read, error %v", a.stale, err)
	}
	seen := map[string]bool{}
	for name, change := range map[string]func(){
		"its revision":                  func() { release.Revision++ },
		"an object":                     func() { release.Objects = append(release.Objects, store.Object(ref("c"))) },
		"an object that a hook deleted": func() { release.Removed = []store.Removed{{Object: store.Object(ref("a"))}} },
	} {
		before := follow()
		save(change)
		if after := follow(); after == before || seen[after] {
			t.Errorf("after a change of %s, the same is watched: %q", name, after)
		}
		seen[before], seen[follow()] = true, true
	}
	if a.reportAgain("m"); follow() != "" {
		t.Error("absent objects are reported again before the run of the module ends")
	}
	if err := db.Update(func(tx *store.Tx) error { return store.Save(tx, store.ModuleKey("m"), store.Module{RanIn: 1}) }); err != nil {
		t.Fatal(err)
	}
	if follow() == "" {
		t.Error("absent objects are not reported again when the run of the module has ended")
	}
	a.repairs["m"] = map[kube.Ref]*repairs{}
	if err := db.Update(func(tx *store.Tx) error { tx.Delete(store.ReleaseKey("m")); return nil }); err != nil {
		t.Fatal(err)
	}
	if follow(); len(a.watched)+len(a.repairs) != 0 {
		t.Errorf("of a deleted release, %v and %v are kept", a.watched, a.repairs)
	}
}
