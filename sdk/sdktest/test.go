package sdktest

import (
	"bytes"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/sdk"
)

// Test is one hook with its values and objects. It is not safe for concurrent use. A mistake in the
// test itself, such as invalid YAML, ends the test.
type Test struct {
	t       testing.TB
	subject Subject
	scope   hook.Scope
	section string // the key of the values it may change
	config  hook.Config
	layers  values.Layers
	flags   map[string]values.EnabledOverride
	cluster *cluster
}

// Module returns a test of a hook of the module with this name in kebab-case. It reads the config
// of the hook, which must be valid.
func Module(t testing.TB, name string, subject Subject) *Test {
	t.Helper()
	return newTest(t, hook.Module, values.Camel(name), subject)
}

// Global returns a test of a global hook. It reads the config of the hook, which must be valid.
func Global(t testing.TB, subject Subject) *Test {
	t.Helper()
	return newTest(t, hook.Global, values.Global, subject)
}

func newTest(t testing.TB, scope hook.Scope, section string, subject Subject) *Test {
	t.Helper()
	var printed, message bytes.Buffer
	code, err := subject.execute(t.Context(), []string{"--config"}, nil, &printed, &message)
	if err != nil {
		t.Fatalf("run the hook with --config: %v", err)
	}
	if code != 0 {
		t.Fatalf("the hook failed with exit code %d when it was run with --config:\n%s", code, &message)
	}
	config, err := hook.Load(scope, printed.Bytes())
	if err != nil {
		t.Fatalf("the hook's config is not valid: %v\n%s", err, &printed)
	}
	return &Test{
		t: t, subject: subject, scope: scope, section: section, config: config, cluster: newCluster(t, config.Kubernetes),
		layers: values.Layers{Static: values.Values{}, Config: values.Config{Sections: values.Values{}}, Saved: map[string][]values.Saved{}},
	}
}

// SetValues sets the content of the values files, in YAML, with sections as in the values.yaml of a
// modules directory. Patches of hooks still override it.
func (t *Test) SetValues(text string) {
	t.t.Helper()
	t.layers.Static = parseValues(t.t, text)
}

// SetConfigValues sets the content of the operator's ConfigMap: its sections as one YAML document.
func (t *Test) SetConfigValues(text string) {
	t.t.Helper()
	t.layers.Config.Sections = parseValues(t.t, text)
}

func parseValues(t testing.TB, text string) values.Values {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("values: %v", err)
	}
	var v values.Values
	if err := v.UnmarshalJSON(asJSON); err != nil {
		t.Fatalf("values: %v", err)
	}
	return v
}

// Values returns the values that the hook gets.
func (t *Test) Values() map[string]any {
	shown, skipped := t.layers.HookValues(t.section, nil)
	for _, s := range skipped {
		t.t.Logf("a patch of an earlier run no longer fits: %s: %s", s, s.Reason)
	}
	return shown
}

// ConfigValues returns the values of the ConfigMap that the hook gets.
func (t *Test) ConfigValues() map[string]any {
	return t.layers.HookConfigValues(t.section)
}

// Value returns the value at a path in the syntax of package sdk. It is nil if there is none. Integers are
// of type int64.
func (t *Test) Value(path string) any {
	t.t.Helper()
	return valueAt(t.t, t.Values(), path)
}

// ConfigValue returns the value at a path of the ConfigMap's values.
func (t *Test) ConfigValue(path string) any {
	t.t.Helper()
	return valueAt(t.t, t.ConfigValues(), path)
}

// valueAt returns the value at a path of tree.
func valueAt(t testing.TB, tree map[string]any, path string) any {
	t.Helper()
	v, err := sdk.ValuesOf(tree)
	if err != nil {
		t.Fatal(err)
	}
	holder, err := sdk.Value(v, path, holder{})
	if err != nil {
		t.Fatal(err)
	}
	return holder.value
}

// holder decodes any JSON value and keeps integers exact.
type holder struct{ value any }

// UnmarshalJSON implements json.Unmarshaler.
func (h *holder) UnmarshalJSON(text []byte) error {
	var wrapped values.Values
	if err := wrapped.UnmarshalJSON([]byte(`{"value":` + string(text) + `}`)); err != nil {
		return err
	}
	h.value = wrapped["value"]
	return nil
}

// Enabled returns the hook's enabled override for a module, named in kebab-case. Without an override, ok is false.
func (t *Test) Enabled(module string) (value, ok bool) {
	override, ok := t.flags[values.Flag(values.Camel(module))]
	return override.Value, ok
}

// bindings lists the names of bindings, for an error.
func bindings(names []string) string {
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

// Put creates the objects in text, or replaces those that exist. The text has documents of YAML or JSON. [Test.Events]
// delivers the changes to the hook.
func (t *Test) Put(text string) {
	t.t.Helper()
	parsed, err := parseObjects(text)
	if err != nil {
		t.t.Fatalf("objects: %v", err)
	}
	for _, object := range parsed {
		read, err := normal(object)
		if err != nil {
			t.t.Fatalf("objects: %v", err)
		}
		t.cluster.put(t.t.Context(), read)
	}
}

// Remove deletes an object, which must exist. Its kind is written as in a config. The namespace of a cluster-scoped object is empty.
func (t *Test) Remove(kind, namespace, name string) {
	t.t.Helper()
	object := t.cluster.objects.find("", kind, namespace, name)
	if object == nil {
		t.t.Fatalf("there is no %s %s/%s to remove", kind, namespace, name)
	}
	t.cluster.remove(t.t.Context(), idOf(object))
}

// Object returns an object, nil if it does not exist.
func (t *Test) Object(kind, namespace, name string) map[string]any {
	object := t.cluster.objects.find("", kind, namespace, name)
	if object == nil {
		return nil
	}
	return object.DeepCopy().Object
}
