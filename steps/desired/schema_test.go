package desired_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
)

func TestConfigMapIsHeldToSchemasOfWhatIsOrGetsEnabled(t *testing.T) {
	s, mounted := scantest.New(t)
	scantest.Write(t, s.Modules.GlobalHooks(), "openapi/config-values.yaml", "properties: {zone: {type: string}}")
	scantest.Write(t, mounted, "010-web/openapi/config-values.yaml", "required: [size]\nproperties: {size: {type: integer}}")
	scantest.Write(t, mounted, "020-off/openapi/config-values.yaml", "properties: {}")
	scantest.Write(t, mounted, "030-static/openapi/config-values.yaml", "required: [size]\nproperties: {size: {type: integer}}")
	scantest.Write(t, mounted, "030-static/values.yaml", "static: {size: 1}")
	scantest.Scan(t, s)
	for _, c := range []struct {
		name    string
		now     values.Config
		enabled []string
		want    []string
	}{
		{"nothing is said", values.Config{}, []string{"web"}, nil},
		{"right", scantest.Config(t, "global", "zone: a", "web", "size: 1"), []string{"web"}, nil},
		{"global", scantest.Config(t, "global", "other: a"), nil, []string{`ConfigMap key "global"`, "global.other"}},
		{"enabled", scantest.Config(t, "web", "size: a"), []string{"web"}, []string{`ConfigMap key "web"`, "web.size", "010-web/openapi/config-values.yaml"}},
		{"gets enabled", scantest.Config(t, "web", "size: a", "webEnabled", "true"), nil, []string{"web.size"}},
		{"gets enabled without settings", scantest.Config(t, "webEnabled", "true"), nil, []string{"web.size is missing"}},
		{"settings of the files count", scantest.Config(t, "staticEnabled", "true"), nil, nil},
		{"not enabled", scantest.Config(t, "off", "any: 1", "offEnabled", "false", "web", "size: a"), []string{"static"}, nil},
		{"no such module", scantest.Config(t, "nowhere", "any: 1", "nowhereEnabled", "true"), nil, nil},
		{"all at once", scantest.Config(t, "global", "other: a", "web", "size: a"), []string{"web"}, []string{"global.other", "web.size"}},
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
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "010-web/openapi/values.yaml", "type: [")
	scantest.Write(t, mounted, "020-good/openapi/values.yaml", "properties: {size: {type: integer, default: 3}}")
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
	if err := s.DB.View(func(tx *store.Tx) error {
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
	s, mounted := scantest.New(t)
	scantest.Write(t, s.Modules.GlobalHooks(), "openapi/values.yaml", "properties: {a: {type: none}}")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {}")
	scantest.Scan(t, s)
	err := s.DB.View(func(tx *store.Tx) error {
		_, err := s.Values.Layers(tx, "web")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), `openapi/values.yaml: /properties/a: there is no type "none"`) {
		t.Errorf("got %v", err)
	}
}

func TestMissingValuesFilesAreErrorsWhereThatIsAskedFor(t *testing.T) {
	o, mounted, _ := scantest.Options(t)
	o.StrictValues = true
	s := scan.New(o, nil)
	if _, err := s.Scan(); err == nil || !strings.Contains(err.Error(), mounted+" has no values.yaml") {
		t.Errorf("got %v", err)
	}
	scantest.Write(t, mounted, "values.yaml", "")
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	if web, _ := set.Find("web"); web.Broken == nil || !strings.Contains(web.Broken.Error(), "010-web has no values.yaml") {
		t.Errorf("got %v", web.Broken)
	}
	scantest.Write(t, mounted, "010-web/values.yaml", "")
	if set, err = s.Scan(); err != nil {
		t.Fatal(err)
	}
	if web, _ := set.Find("web"); web.Broken != nil {
		t.Error(web.Broken)
	}
}

func TestOperationsThatASchemaDoesNotTakeAnyMoreAreDropped(t *testing.T) {
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "010-web/openapi/values.yaml", "properties: {kept: {type: integer}}")
	scantest.Scan(t, s)
	op := func(path string) values.Saved {
		return values.Saved{Op: values.Op{Op: "add", Path: path, Value: json.RawMessage("1")}, Hook: "web/hook.sh"}
	}
	key := store.SavedKey("web")
	if err := s.DB.Update(func(tx *store.Tx) error {
		return store.Save(tx, key, []values.Saved{op("/web/gone"), op("/web/kept")})
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.DB.Update(func(tx *store.Tx) error {
		layers, err := s.Values.LayersOf(tx, "web")
		if err != nil {
			return err
		}
		unfit := s.Values.Unfit(layers)
		if got, want := unfit.Note(), ", saved values dropped that the schemas no longer accept: /web/gone"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		// An operation that is saved between the check and Drop stays saved.
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
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "010-web/openapi/config-values.yaml", "maxProperties: 2\nadditionalProperties: true")
	scantest.Scan(t, s)
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
