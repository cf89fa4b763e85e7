package steps

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/sections"
	"addon-operator/store"
)

// write puts a file below dir.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// parsed returns what a ConfigMap with these keys and texts says.
func parsed(t *testing.T, data ...string) values.Config {
	t.Helper()
	m := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		m[data[i]] = data[i+1]
	}
	c, err := values.ParseConfig(m)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigMapIsHeldToSchemasOfWhatIsOrGetsEnabled(t *testing.T) {
	s, mounted, _ := newLifecycle(t)
	write(t, s.options.GlobalHooksDir, "openapi/config-values.yaml", "properties: {zone: {type: string}}")
	write(t, mounted, "010-web/openapi/config-values.yaml", "required: [size]\nproperties: {size: {type: integer}}")
	write(t, mounted, "020-off/openapi/config-values.yaml", "properties: {}")
	write(t, mounted, "030-static/openapi/config-values.yaml", "required: [size]\nproperties: {size: {type: integer}}")
	write(t, mounted, "030-static/values.yaml", "static: {size: 1}")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		now     values.Config
		enabled []string
		want    []string
	}{
		{"nothing is said", values.Config{}, []string{"web"}, nil},
		{"right", parsed(t, "global", "zone: a", "web", "size: 1"), []string{"web"}, nil},
		{"global", parsed(t, "global", "other: a"), nil, []string{`ConfigMap key "global"`, "global.other"}},
		{"enabled", parsed(t, "web", "size: a"), []string{"web"}, []string{`ConfigMap key "web"`, "web.size", "010-web/openapi/config-values.yaml"}},
		{"gets enabled", parsed(t, "web", "size: a", "webEnabled", "true"), nil, []string{"web.size"}},
		{"gets enabled without settings", parsed(t, "webEnabled", "true"), nil, []string{"web.size is missing"}},
		{"settings of the files count", parsed(t, "staticEnabled", "true"), nil, nil},
		{"not enabled", parsed(t, "off", "any: 1", "offEnabled", "false", "web", "size: a"), []string{"static"}, nil},
		{"no such module", parsed(t, "nowhere", "any: 1", "nowhereEnabled", "true"), nil, nil},
		{"all at once", parsed(t, "global", "other: a", "web", "size: a"), []string{"web"}, []string{"global.other", "web.size"}},
	} {
		err := s.ConfigMap.Refusal(values.Config{}, c.now, c.enabled)
		if (err != nil) != (c.want != nil) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", c.name, err, want)
			}
		}
	}
}

func TestBrokenSchemaBreaksItsModuleAlone(t *testing.T) {
	s, mounted, _ := newLifecycle(t)
	write(t, mounted, "010-web/openapi/values.yaml", "type: [")
	write(t, mounted, "020-good/openapi/values.yaml", "properties: {size: {type: integer, default: 3}}")
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	web, _ := set.Find("web")
	if web.Broken == nil || !strings.Contains(web.Broken.Error(), "010-web/openapi/values.yaml is not valid YAML") {
		t.Errorf("got %v", web.Broken)
	}
	if err := s.Modules.Usable("web"); err == nil {
		t.Error("the module with the broken schema can be used")
	}
	if err := s.Modules.Usable("good"); err != nil {
		t.Error(err)
	}
	if err := s.db.View(func(tx *store.Tx) error {
		layers, err := s.Values.Layers(tx, "good")
		if err != nil {
			return err
		}
		got, _ := layers.Section("good")
		if diff := cmp.Diff(map[string]any{"size": int64(3)}, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingHasValuesWithoutTheSchemasOfGlobalOnes(t *testing.T) {
	s, mounted, _ := newLifecycle(t)
	write(t, s.options.GlobalHooksDir, "openapi/values.yaml", "properties: {a: {type: none}}")
	write(t, mounted, "010-web/values.yaml", "web: {}")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	err := s.db.View(func(tx *store.Tx) error {
		_, err := s.Values.Layers(tx, "web")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), `openapi/values.yaml: /properties/a: there is no type "none"`) {
		t.Errorf("got %v", err)
	}
}

func TestMissingValuesFilesAreErrorsWhereThatIsAskedFor(t *testing.T) {
	s, mounted, _ := newLifecycle(t)
	s = rebuilt(t, s, func(o *Options) { o.StrictValues = true })
	if _, err := s.Scan(); err == nil || !strings.Contains(err.Error(), mounted+" has no values.yaml") {
		t.Errorf("got %v", err)
	}
	write(t, mounted, "values.yaml", "")
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	if web, _ := set.Find("web"); web.Broken == nil || !strings.Contains(web.Broken.Error(), "010-web has no values.yaml") {
		t.Errorf("got %v", web.Broken)
	}
	write(t, mounted, "010-web/values.yaml", "")
	if set, err = s.Scan(); err != nil {
		t.Fatal(err)
	}
	if web, _ := set.Find("web"); web.Broken != nil {
		t.Error(web.Broken)
	}
}

func TestOperationsThatASchemaDoesNotTakeAnyMoreAreDropped(t *testing.T) {
	s, mounted, _ := newLifecycle(t)
	write(t, mounted, "010-web/openapi/values.yaml", "properties: {kept: {type: integer}}")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	op := func(path string) values.Saved {
		return values.Saved{Op: values.Op{Op: "add", Path: path, Value: json.RawMessage("1")}, Hook: "web/hook.sh"}
	}
	key := store.SavedKey("web")
	if err := s.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, key, []values.Saved{op("/web/gone"), op("/web/kept")})
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Update(func(tx *store.Tx) error {
		layers, err := s.Values.LayersOf(tx, "web")
		if err != nil {
			return err
		}
		unfit := s.Values.Unfit(layers)
		if got, want := unfit.Note(), ", saved values dropped that schemas do not take any more: /web/gone"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		// What was saved meanwhile stays.
		if err := store.Save(tx, key, []values.Saved{op("/web/gone"), op("/web/kept"), op("/web/new")}); err != nil {
			return err
		}
		if err := unfit.Drop(tx); err != nil {
			return err
		}
		left, _, err := store.Load[[]values.Saved](tx, key)
		if diff := cmp.Diff([]values.Saved{op("/web/kept"), op("/web/new")}, left); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestHookWriteIsHeldToTheSchemaOnWhatThereIsNow(t *testing.T) {
	s, mounted, _ := newLifecycle(t)
	write(t, mounted, "010-web/openapi/config-values.yaml", "maxProperties: 2\nadditionalProperties: true")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	before := values.Config{Sections: values.Values{"web": map[string]any{"a": int64(1)}}}
	w, err := sections.PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/b", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	layers := values.Layers{Schemas: s.Modules.Schemas()}
	if _, _, err := w.Text(map[string]string{"web": "a: 1"}, layers); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Text(map[string]string{"web": "a: 1\nc: 1"}, layers); err == nil || !strings.Contains(err.Error(), "maxProperties") {
		t.Errorf("got %v", err)
	}
}
