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

// Test is the test of one hook, with values and objects. It is not safe for concurrent use. A mistake in the test
// itself, such as invalid YAML, ends the test with a failure.
type Test struct {
	t       testing.TB
	subject Subject
	scope   hook.Scope
	section string // the key of the section that the hook may change
	config  hook.Config
	layers  values.Layers
	flags   map[string]values.EnabledOverride
	cluster *cluster
}

// Module returns a test of a hook of the module with this name, in kebab-case. It runs the hook with --config. If the
// configuration is invalid, Module ends the test with a failure.
func Module(t testing.TB, name string, subject Subject) *Test {
	t.Helper()
	return newTest(t, hook.Module, values.Camel(name), subject)
}

// Global returns a test of a global hook. It runs the hook with --config. If the configuration is invalid, Global
// ends the test with a failure.
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

// SetValues sets the content of the values files, in YAML, with sections as in the values.yaml of a modules
// directory. Patches that the hook has returned still override these values.
func (t *Test) SetValues(text string) {
	t.t.Helper()
	t.layers.Static = parseValues(t.t, text)
}

// SetConfigValues sets the sections in the operator's ConfigMap. The text is one YAML document with all sections.
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

// Values returns the merged values, as the next run of the hook gets them.
func (t *Test) Values() map[string]any {
	shown, skipped := t.layers.HookValues(t.section, nil)
	for _, s := range skipped {
		t.t.Logf("a patch of an earlier run no longer fits: %s: %s", s, s.Reason)
	}
	return shown
}

// ConfigValues returns the values of the ConfigMap, as the next run of the hook gets them.
func (t *Test) ConfigValues() map[string]any {
	return t.layers.HookConfigValues(t.section)
}

// Value returns the value at a path in the syntax of package sdk. It returns nil if there is no value at the path.
// Integers have the type int64.
func (t *Test) Value(path string) any {
	t.t.Helper()
	return valueAt(t.t, t.Values(), path)
}

// ConfigValue is like Value, for the values of the ConfigMap.
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

// holder decodes any JSON value. Integers in the range of int64 become int64 values, so that they stay exact.
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

// Enabled returns the enabled override that the hook has set for a module, and whether it has set one. The argument
// module is the name of the module in kebab-case.
func (t *Test) Enabled(module string) (value, ok bool) {
	override, ok := t.flags[values.Flag(values.Camel(module))]
	return override.Value, ok
}

// bindings returns a text for errors that lists the names of bindings.
func bindings(names []string) string {
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

// Put creates the objects in text, and replaces the ones that exist already. Each object is a document of YAML or
// JSON. [Test.Events] delivers the changes to the hook.
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

// Remove deletes an object, which must exist. The argument kind is the name of the kind, its plural or its short name.
// For a cluster-scoped object, namespace is empty.
func (t *Test) Remove(kind, namespace, name string) {
	t.t.Helper()
	object := t.cluster.objects.find("", kind, namespace, name)
	if object == nil {
		t.t.Fatalf("there is no %s %s/%s to remove", kind, namespace, name)
	}
	t.cluster.remove(t.t.Context(), idOf(object))
}

// Object returns a copy of an object, or nil if the object does not exist.
func (t *Test) Object(kind, namespace, name string) map[string]any {
	object := t.cluster.objects.find("", kind, namespace, name)
	if object == nil {
		return nil
	}
	return object.DeepCopy().Object
}
