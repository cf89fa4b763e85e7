package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/hook"
)

var (
	pod    = hook.Item{Object: json.RawMessage(`{"kind":"Pod","n":1}`)}
	result = hook.Item{FilterResult: json.RawMessage(`3`)}
	full   = hook.Item{Object: json.RawMessage(`{"kind":"Pod"}`), FilterResult: json.RawMessage(`null`)}
)

func TestBindingContextIsWrittenToTheLetter(t *testing.T) {
	t.Parallel()
	snapshots := map[string][]hook.Item{"pods": {full, pod}, "nodes": nil}
	const documented = `{"nodes":[],"pods":[{"object":{"kind":"Pod"},"filterResult":null},{"object":{"kind":"Pod","n":1}}]}`
	for name, c := range map[string]struct {
		element hook.Element
		want    string
	}{
		"onStartup": {
			hook.Element{Binding: hook.OnStartup},
			`{"binding":"onStartup"}`,
		},
		"ordered binding": {
			hook.Element{Binding: hook.BeforeHelm, Snapshots: snapshots},
			`{"binding":"beforeHelm","snapshots":` + documented + `}`,
		},
		"ordered binding of a hook without kubernetes bindings": {
			hook.Element{Binding: hook.AfterAll, Snapshots: map[string][]hook.Item{}},
			`{"binding":"afterAll","snapshots":{}}`,
		},
		"schedule": {
			hook.Element{Binding: "schedule", Type: hook.TypeSchedule},
			`{"binding":"schedule","type":"Schedule"}`,
		},
		"schedule with snapshots": {
			hook.Element{Binding: "each \"5\" min", Type: hook.TypeSchedule, Snapshots: snapshots},
			`{"binding":"each \"5\" min","type":"Schedule","snapshots":` + documented + `}`,
		},
		"synchronization": {
			hook.Element{Binding: "pods", Type: hook.TypeSynchronization, Objects: []hook.Item{pod, result}},
			`{"binding":"pods","type":"Synchronization","objects":[{"object":{"kind":"Pod","n":1}},{"filterResult":3}]}`,
		},
		"synchronization of nothing": {
			hook.Element{Binding: "pods", Type: hook.TypeSynchronization, Snapshots: map[string][]hook.Item{"pods": {}}},
			`{"binding":"pods","type":"Synchronization","objects":[],"snapshots":{"pods":[]}}`,
		},
		"event": {
			hook.Element{Binding: "kubernetes", Type: hook.TypeEvent, WatchEvent: hook.Added, Item: pod},
			`{"binding":"kubernetes","type":"Event","watchEvent":"Added","object":{"kind":"Pod","n":1}}`,
		},
		"event with a filter and snapshots": {
			hook.Element{Binding: "kubernetes", Type: hook.TypeEvent, WatchEvent: hook.Deleted, Item: full, Snapshots: snapshots},
			`{"binding":"kubernetes","type":"Event","watchEvent":"Deleted","object":{"kind":"Pod"},"filterResult":null,"snapshots":` + documented + `}`,
		},
		"event without full objects": {
			hook.Element{Binding: "kubernetes", Type: hook.TypeEvent, WatchEvent: hook.Modified, Item: result},
			`{"binding":"kubernetes","type":"Event","watchEvent":"Modified","filterResult":3}`,
		},
		"group of an event": {
			hook.Element{Binding: "pods", Type: hook.TypeEvent, Group: "g", WatchEvent: hook.Added, Item: pod, Snapshots: snapshots},
			`{"binding":"pods","type":"Group","groupName":"g","snapshots":` + documented + `}`,
		},
		"group of a synchronization": {
			hook.Element{Binding: "pods", Type: hook.TypeSynchronization, Group: "g", Objects: []hook.Item{pod}, Snapshots: snapshots},
			`{"binding":"pods","type":"Group","groupName":"g","snapshots":` + documented + `}`,
		},
		"group of a schedule": {
			hook.Element{Binding: "schedule", Type: hook.TypeSchedule, Group: "g", Snapshots: snapshots},
			`{"binding":"schedule","type":"Group","groupName":"g","snapshots":` + documented + `}`,
		},
		"legacy binding": {
			hook.Element{Binding: hook.BeforeHelm, Legacy: true, Snapshots: snapshots},
			`{"binding":"beforeHelm"}`,
		},
		"legacy schedule": {
			hook.Element{Binding: "each minute", Type: hook.TypeSchedule, Legacy: true},
			`{"binding":"each minute"}`,
		},
		"legacy event": {
			hook.Element{
				Binding: "onKubernetesEvent", Type: hook.TypeEvent, WatchEvent: hook.Modified, Item: pod, Legacy: true,
				Named: hook.Named{Kind: "Pod", Namespace: "default", Name: "web-0"},
			},
			`{"binding":"onKubernetesEvent","resourceEvent":"update","resourceNamespace":"default","resourceKind":"Pod","resourceName":"web-0"}`,
		},
		"legacy event of a kind without namespaces": {
			hook.Element{
				Binding: "nodes", Type: hook.TypeEvent, WatchEvent: hook.Deleted, Legacy: true,
				Named: hook.Named{Kind: "Node", Name: "n1"},
			},
			`{"binding":"nodes","resourceEvent":"delete","resourceNamespace":"","resourceKind":"Node","resourceName":"n1"}`,
		},
	} {
		got, err := hook.Encode([]hook.Element{c.element})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff("["+c.want+"]", string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if single, err := json.Marshal(c.element); err != nil || string(single) != c.want {
			t.Errorf("%s marshals as %s, %v", name, single, err)
		}
	}
}

func TestBindingContextIsAlwaysAnArray(t *testing.T) {
	t.Parallel()
	for want, elements := range map[string][]hook.Element{
		`[]`: nil,
		`[{"binding":"a","type":"Schedule"},{"binding":"b","type":"Schedule"}]`: {{Binding: "a", Type: hook.TypeSchedule}, {Binding: "b", Type: hook.TypeSchedule}},
	} {
		if got, err := hook.Encode(elements); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestSharedSnapshotsAreToldInEveryElement(t *testing.T) {
	t.Parallel()
	items := []hook.Item{pod, full}
	got, err := hook.Encode([]hook.Element{
		{Binding: "a", Type: hook.TypeSynchronization, Objects: items, Snapshots: map[string][]hook.Item{"x": items, "y": items[:1], "z": items[1:]}},
		{Binding: "b", Type: hook.TypeSchedule, Snapshots: map[string][]hook.Item{"x": items}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const first, second = `{"object":{"kind":"Pod","n":1}}`, `{"object":{"kind":"Pod"},"filterResult":null}`
	want := `[{"binding":"a","type":"Synchronization","objects":[` + first + `,` + second + `],"snapshots":{"x":[` + first + `,` + second + `],"y":[` + first + `],"z":[` + second + `]}},` +
		`{"binding":"b","type":"Schedule","snapshots":{"x":[` + first + `,` + second + `]}}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotJSONDoesNotReachAHook(t *testing.T) {
	t.Parallel()
	for want, element := range map[string]hook.Element{
		"element 0 (a): its object is not JSON":                       {Binding: "a", Type: hook.TypeEvent, Item: hook.Item{Object: json.RawMessage(`{`)}},
		"element 0 (b): object 1: its filterResult is not JSON":       {Binding: "b", Type: hook.TypeSynchronization, Objects: []hook.Item{pod, {FilterResult: json.RawMessage(``)}}},
		"element 0 (c): snapshot s: object 0: its object is not JSON": {Binding: "c", Snapshots: map[string][]hook.Item{"s": {{Object: json.RawMessage(`1 2`)}}}},
	} {
		if _, err := hook.Encode([]hook.Element{element}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

func TestItemsSurviveStorage(t *testing.T) {
	t.Parallel()
	for want, item := range map[string]hook.Item{
		`{"object":{"kind":"Pod"},"filterResult":null}`: full,
		`{"object":{"kind":"Pod","n":1}}`:               pod,
		`{"filterResult":3}`:                            result,
		`{}`:                                            {},
	} {
		stored, err := json.Marshal(item)
		if err != nil || string(stored) != want {
			t.Errorf("stored as %s, %v, want %s", stored, err, want)
		}
		var back hook.Item
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(item, back); diff != "" {
			t.Errorf("after storing (-before +after):\n%s", diff)
		}
	}
}

func TestOfEqualAdjacentGroupsTheLastRemains(t *testing.T) {
	t.Parallel()
	of := func(text string) []hook.Element {
		var elements []hook.Element
		for word := range strings.FieldsSeq(text) {
			binding, group, _ := strings.Cut(word, "/")
			elements = append(elements, hook.Element{Binding: binding, Group: group})
		}
		return elements
	}
	for given, want := range map[string]string{
		"":                        "",
		"a b b":                   "a b b",
		"a/g":                     "a/g",
		"a/g b/g c/g":             "c/g",
		"a/g b/h c/g":             "a/g b/h c/g",
		"a/g b c/g d/g e/h f/h g": "a/g b d/g f/h g",
	} {
		elements := of(given)
		got := hook.Compact(elements)
		if diff := cmp.Diff(of(want), got, equateEmpty); diff != "" {
			t.Errorf("%q (-want +got):\n%s", given, diff)
		}
		if diff := cmp.Diff(of(given), elements); diff != "" {
			t.Errorf("%q was changed (-want +got):\n%s", given, diff)
		}
	}
}

var equateEmpty = cmp.Transformer("empty", func(e []hook.Element) []hook.Element { return append([]hook.Element{}, e...) })

// TestAnyContextIsReadBackAsItWasGiven encodes random binding contexts. A hook must read exactly the encoded elements.
// After Compact, no two consecutive elements may have the same group.
func TestAnyContextIsReadBackAsItWasGiven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := rapid.Custom(func(t *rapid.T) hook.Item {
			return hook.Item{
				Object:       rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":"<&>"}`), json.RawMessage(` [1, 2] `)}).Draw(t, "object"),
				FilterResult: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`null`), json.RawMessage(`"x"`)}).Draw(t, "filterResult"),
			}
		})
		shared := rapid.SliceOfN(item, 0, 3).Draw(t, "shared")
		element := rapid.Custom(func(t *rapid.T) hook.Element {
			e := hook.Element{
				Binding: rapid.String().Draw(t, "binding"),
				Type:    rapid.SampledFrom([]hook.Type{"", hook.TypeSchedule, hook.TypeSynchronization, hook.TypeEvent}).Draw(t, "type"),
				Group:   rapid.SampledFrom([]string{"", "", "g", "h"}).Draw(t, "group"),
				Item:    item.Draw(t, "item"), Objects: rapid.SliceOfN(item, 0, 3).Draw(t, "objects"),
			}
			if rapid.Bool().Draw(t, "snapshots") {
				e.Snapshots = map[string][]hook.Item{rapid.String().Draw(t, "name"): shared}
			}
			return e
		})
		elements := hook.Compact(rapid.SliceOfN(element, 0, 5).Draw(t, "elements"))
		data, err := hook.Encode(elements)
		if err != nil {
			t.Fatal(err)
		}
		var back []struct {
			Binding   string                 `json:"binding"`
			Type      string                 `json:"type"`
			GroupName string                 `json:"groupName"`
			Objects   []hook.Item            `json:"objects"`
			Snapshots map[string][]hook.Item `json:"snapshots"`
		}
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if len(back) != len(elements) {
			t.Fatalf("%d elements became %d", len(elements), len(back))
		}
		for i, e := range elements {
			if i > 0 && e.Group != "" && elements[i-1].Group == e.Group {
				t.Errorf("group %s stands twice in a row", e.Group)
			}
			if back[i].Binding != e.Binding || back[i].GroupName != e.Group || len(back[i].Snapshots) != len(e.Snapshots) {
				t.Errorf("%+v became %+v", e, back[i])
			}
			if e.Group == "" && e.Type == hook.TypeSynchronization && len(back[i].Objects) != len(e.Objects) {
				t.Errorf("%d objects became %d", len(e.Objects), len(back[i].Objects))
			}
			for name := range e.Snapshots {
				if len(back[i].Snapshots[name]) != len(shared) {
					t.Errorf("snapshot %q of %d became %d", name, len(shared), len(back[i].Snapshots[name]))
				}
			}
		}
	})
}

func BenchmarkEncodeBurst(b *testing.B) {
	snapshot := make([]hook.Item, 100)
	for i := range snapshot {
		snapshot[i] = hook.Item{Object: json.RawMessage(`{"kind":"Pod","spec":"` + strings.Repeat("x", 2000) + `"}`), FilterResult: json.RawMessage(`1`)}
	}
	elements := make([]hook.Element, 80)
	for i := range elements {
		elements[i] = hook.Element{Binding: "pods", Type: hook.TypeEvent, WatchEvent: hook.Added, Item: snapshot[i], Snapshots: map[string][]hook.Item{"pods": snapshot}}
	}
	for b.Loop() {
		if _, err := hook.Encode(elements); err != nil {
			b.Fatal(err)
		}
	}
}
