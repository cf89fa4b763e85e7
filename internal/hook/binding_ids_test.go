package hook_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

// named returns a config whose bindings have these names.
func named(kubernetes, schedule []string) (c hook.Config) {
	for _, name := range kubernetes {
		c.Kubernetes = append(c.Kubernetes, hook.KubernetesBinding{Name: name})
	}
	for _, name := range schedule {
		c.Schedule = append(c.Schedule, hook.ScheduleBinding{Name: name})
	}
	return c
}

func TestIDOfABindingIsItsNameWithANumberIfTheNameIsTaken(t *testing.T) {
	t.Parallel()
	c := named([]string{"kubernetes", "pods", "kubernetes", "kubernetes"}, []string{"schedule", "pods"})
	c.Validating = []hook.AdmissionBinding{{Name: "a.example.com"}, {Name: "b.example.com"}}
	c.Mutating = []hook.AdmissionBinding{{Name: "a.example.com"}}
	c.Conversion = []hook.ConversionBinding{{Name: "pods"}}
	want := hook.BindingIDs{
		Kubernetes: []string{"kubernetes", "pods", "kubernetes#2", "kubernetes#3"}, Schedule: []string{"schedule", "pods#2"},
		Validating: []string{"a.example.com", "b.example.com"}, Mutating: []string{"a.example.com#2"}, Conversion: []string{"pods#3"},
	}
	if diff := cmp.Diff(want, c.BindingIDs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(hook.BindingIDs{}, hook.Config{Ordered: map[string]int{hook.OnStartup: 1}}.BindingIDs()); diff != "" {
		t.Errorf("ordered bindings have IDs (-want +got):\n%s", diff)
	}
}

func TestIDsOfBindingsDifferAlsoIfANameLooksLikeAnID(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{
		{"a", "a", "a#2"}, {"a", "a#2", "a"}, {"a#2", "a", "a"}, {"a#2", "a#2", "a", "a", "a#2#2"},
	} {
		seen := map[string]bool{}
		for _, id := range named(names, nil).BindingIDs().Kubernetes {
			if seen[id] {
				t.Errorf("bindings %q: two have the ID %s", names, id)
			}
			seen[id] = true
		}
	}
}

func TestBindingsThatRunAHookAtEachStart(t *testing.T) {
	t.Parallel()
	synchronized := named([]string{"kubernetes", "kubernetes", "pods"}, []string{"schedule"})
	synchronized.Kubernetes[1].ExecuteOnSynchronization = true
	for name, c := range map[string]struct {
		config hook.Config
		want   []string
	}{
		"no bindings": {},
		"ordered bindings, in the order of a converge": {
			hook.Config{Ordered: map[string]int{hook.AfterHelm: 1, hook.BeforeHelm: 5, hook.OnStartup: 9}}, []string{hook.OnStartup, hook.BeforeHelm, hook.AfterHelm},
		},
		"global hooks":                      {hook.Config{Ordered: map[string]int{hook.AfterAll: 1, hook.BeforeAll: 2}}, []string{hook.BeforeAll, hook.AfterAll}},
		"deletions do not run at a start":   {hook.Config{Ordered: map[string]int{hook.BeforeDeleteHelm: 1, hook.AfterDeleteHelm: 2}}, nil},
		"Synchronization, not the schedule": {synchronized, []string{"kubernetes kubernetes#2"}},
		"only schedules":                    {named(nil, []string{"schedule", "schedule"}), []string{"schedule schedule", "schedule schedule#2"}},
		"schedules and events":              {named([]string{"pods"}, []string{"hourly"}), []string{"schedule hourly"}},
		"only events":                       {named([]string{"pods"}, nil), nil},
	} {
		if diff := cmp.Diff(c.want, c.config.StartBindings()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
