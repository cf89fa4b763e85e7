package metrics

import (
	"maps"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// counted returns the values of all counters that have the label "binding". Each key consists of the name of the
// counter and the value of this label.
func counted(t *testing.T, s *Set) map[string]float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "binding" && f.GetType() == dto.MetricType_COUNTER {
					values[f.GetName()+" "+l.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	return values
}

// TestCountersOfHooksExistFromTheFirstRunOn checks that all three counters exist after a successful run. If a counter
// appeared with the first error, an alert on the increase would miss that error.
func TestCountersOfHooksExistFromTheFirstRunOn(t *testing.T) {
	t.Parallel()
	for module, kind := range map[string]string{"": "global", "m": "module"} {
		s := New("p_", nothing)
		s.HookRan(HookRun{Binding: Binding{Module: module, Hook: "h", Name: "pods", Queue: "main"}, Type: "kubernetes"})
		want := map[string]float64{
			"p_" + kind + "_hook_success_total kubernetes": 1, "p_" + kind + "_hook_errors_total kubernetes": 0,
			"p_" + kind + "_hook_allowed_errors_total kubernetes": 0,
		}
		if got := counted(t, s); !maps.Equal(got, want) {
			t.Errorf("%s hook: %v, want %v", kind, got, want)
		}
	}
}
