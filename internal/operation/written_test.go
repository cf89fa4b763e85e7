package operation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
)

func TestEachWriteIsReportedWithTheVersionThatItMade(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var got []string
	attempt := s.attempt()
	attempt.Write = func(object kube.Ref) func(string) {
		got = append(got, object.Kind+" "+object.Namespace+" "+object.Name)
		return func(resourceVersion string) { got = append(got, resourceVersion) }
	}
	var want []string
	for _, text := range []string{
		`{"operation":"Create","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"NS"},"data":{"n":"1"}}}`,
		`{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"NS"},"data":{"n":"2"}}}`,
		`{"operation":"MergePatch","kind":"ConfigMap","namespace":"NS","name":"a","mergePatch":{"data":{"n":"3"}}}`,
		`{"operation":"JSONPatch","kind":"ConfigMap","namespace":"NS","name":"a","jsonPatch":[{"op":"replace","path":"/data/n","value":"4"}]}`,
		`{"operation":"JQPatch","kind":"ConfigMap","namespace":"NS","name":"a","jqFilter":".data.n = \"5\""}`,
	} {
		if err := s.try(text, attempt); err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		want = append(want, "ConfigMap "+s.namespace+" a", s.get(configMaps, "a").GetResourceVersion())
	}
	if err := s.try(`{"operation":"MergePatch","kind":"ConfigMap","namespace":"NS","name":"none","mergePatch":{"data":{"n":"3"}}}`, attempt); err == nil {
		t.Error("an object that does not exist was patched")
	}
	if err := s.try(`{"operation":"DeleteInBackground","kind":"ConfigMap","namespace":"NS","name":"a"}`, attempt); err != nil {
		t.Error(err)
	}
	want = append(want, "ConfigMap "+s.namespace+" none", "", "ConfigMap "+s.namespace+" a", "")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestTheOperatorIsFoundAmongFieldManagers(t *testing.T) {
	t.Parallel()
	for managers, want := range map[string]bool{
		"addon-operator": true, "kubectl or addon-operator": true, "addon-operator (status) or kubelet": true,
		"": false, "kubectl": false, "my-addon-operator": false,
	} {
		if got := operation.IsWriter(managers); got != want {
			t.Errorf("%q: %t, want %t", managers, got, want)
		}
	}
}
