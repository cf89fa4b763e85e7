package hookio_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// newSized returns a state with the module "web", whose schema has an integer property "size".
func newSized(t *testing.T) *scan.State {
	t.Helper()
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "values.yaml", "global: {kept: 1}")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}")
	scantest.Write(t, mounted, "010-web/openapi/config-values.yaml", "properties: {size: {type: integer}}")
	scantest.Scan(t, s)
	return s
}

func TestOneInvalidFileMakesTheWholeOutputInvalid(t *testing.T) {
	t.Parallel()
	s := newSized(t)
	good := hook.Result{
		ValuesPatch: []byte(`{"op":"add","path":"/web/size","value":2}`), ConfigPatch: []byte(`{"op":"add","path":"/web/size","value":3}`),
		Metrics: []byte(`{"name":"m","set":1}`), Operations: []byte(`{"operation":"Delete","kind":"Pod","namespace":"ops","name":"a"}`),
	}
	if o, err := hookio.NewOutput("web").Outcome(inputOf(t, s, "web"), good); err != nil || len(o.Effects) != 2 {
		t.Fatalf("%d effects, %v", len(o.Effects), err)
	}
	for _, c := range []struct {
		change func(*hook.Result, string)
		text   string
		want   []string
	}{
		{func(r *hook.Result, text string) { r.ValuesPatch = []byte(text) }, `{"op":"add","path":"/db/size","value":2}`, []string{"$VALUES_JSON_PATCH_PATH: ", "/db/size"}},
		{func(r *hook.Result, text string) { r.ValuesPatch = []byte(text) }, `{"op":"add","path":"/web/a/b","value":2}`, []string{"$VALUES_JSON_PATCH_PATH: ", "/web/a/b"}},
		{func(r *hook.Result, text string) { r.ConfigPatch = []byte(text) }, `{"op":"add","path":"/web/size","value":"large"}`, []string{"$CONFIG_VALUES_JSON_PATCH_PATH: ", "web.size must be of type integer"}},
		{func(r *hook.Result, text string) { r.ConfigPatch = []byte(text) }, `{"op":"add","path":"/global/size","value":2}`, []string{"$CONFIG_VALUES_JSON_PATCH_PATH: ", "/global/size"}},
		{func(r *hook.Result, text string) { r.ConfigPatch = []byte(text) }, `{"op":"add","path":"/web/a/b","value":2}`, []string{"$CONFIG_VALUES_JSON_PATCH_PATH: ", "/web/a/b"}},
		{func(r *hook.Result, text string) { r.Metrics = []byte(text) }, `{"set":1}`, []string{"$METRICS_PATH: ", "name"}},
		{func(r *hook.Result, text string) { r.Operations = []byte(text) }, `{"operation":"Delete","name":"a"}`, []string{"$KUBERNETES_PATCH_PATH: ", "kind"}},
	} {
		result := good
		c.change(&result, c.text)
		_, err := hookio.NewOutput("web").Outcome(inputOf(t, s, "web"), result)
		if err == nil || !strings.HasPrefix(err.Error(), c.want[0]) || !strings.Contains(err.Error(), c.want[1]) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestTheHistoryShowsTheValuesThatAHookChanges(t *testing.T) {
	t.Parallel()
	s := newSized(t)
	for name, c := range map[string]struct {
		result hook.Result
		want   *store.ValueChanges
	}{
		"nothing":              {hook.Result{}, nil},
		"the same value":       {hook.Result{ValuesPatch: []byte(`{"op":"add","path":"/web/size","value":1}`)}, nil},
		"a value":              {hook.Result{ValuesPatch: []byte(`{"op":"add","path":"/web/size","value":2}`)}, &store.ValueChanges{List: []store.ValueChange{{Path: "/web/size", Old: "1", New: "2"}}}},
		"a global value":       {hook.Result{ValuesPatch: []byte(`{"op":"add","path":"/global/size","value":2}`)}, &store.ValueChanges{List: []store.ValueChange{{Path: "/global/size", New: "2"}}}},
		"the ConfigMap":        {hook.Result{ConfigPatch: []byte(`{"op":"add","path":"/web/size","value":3}`)}, &store.ValueChanges{List: []store.ValueChange{{Path: "/web/size", Old: "1", New: "3"}}}},
		"the ConfigMap, as is": {hook.Result{ConfigPatch: []byte(`{"op":"add","path":"/web/size","value":1}`)}, nil},
	} {
		o, err := hookio.NewOutput("web").Outcome(inputOf(t, s, "web"), c.result)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, o.Changes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnEffectOfAnUnknownKindFailsItsHookAndIsNotRetried(t *testing.T) {
	t.Parallel()
	s := newSized(t)
	err := exchange(s).Effect(t.Context(), workflow.Task{}, workflow.Effect{Kind: "other"})
	if err == nil || err.Error() != workflow.Refused(errors.New(`no effect is called "other"`)).Error() {
		t.Errorf("got %v", err)
	}
}

func TestTheSectionOfAnOutputIsThatOfItsModule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ module, data, want string }{
		{"my-web", "", "myWeb"}, {"my-web", `{"section":"global"}`, "myWeb"}, {"", "", "global"}, {"", `{"section":"myWeb"}`, "global"},
	} {
		if out, err := hookio.Decode(c.module, []byte(c.data)); err != nil || out.Section != c.want {
			t.Errorf("module %q, data %q: section %q, %v; want %q", c.module, c.data, out.Section, err, c.want)
		}
	}
}

func TestAHookIsFoundWhereItsModuleLiesNow(t *testing.T) {
	t.Parallel()
	s, mounted := scantest.New(t)
	path := scantest.Program(t, mounted, "010-web/hooks/hook.sh", scantest.GoodHook)
	scantest.Scan(t, s)
	file, err := json.Marshal(hook.File{Scope: hook.Module, Name: "hooks/hook.sh", Path: "/somewhere/020-web/hooks/hook.sh"})
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.HookKey("web", "hooks/hook.sh"), store.Hook{File: file, Config: json.RawMessage(`{}`)}),
			store.Save(tx, store.HookKey("web", "hooks/gone.sh"), store.Hook{File: []byte(`{"name":"hooks/gone.sh","path":"/somewhere/gone.sh"}`), Config: json.RawMessage(`{}`)}),
			store.Save(tx, store.HookKey("web", "hooks/bad.sh"), store.Hook{File: json.RawMessage(`[]`), Config: json.RawMessage(`{}`)}))
	})
	for name, want := range map[string]string{
		"hooks/hook.sh": "", "hooks/gone.sh": "file /somewhere/gone.sh is not there any more", "hooks/none.sh": "hook web/hooks/none.sh is not there any more",
		"hooks/bad.sh": `hook hooks/bad.sh of module "web" in the store: `,
	} {
		var found bindings.Hook
		err := s.DB.View(func(tx *store.Tx) (err error) {
			found, err = exchange(s).Find(tx, graph.Subject{Module: "web", Hook: name})
			return err
		})
		switch gone := slices.Contains([]string{"hooks/gone.sh", "hooks/none.sh"}, name); {
		case want == "" && (err != nil || found.File.Path != path):
			t.Errorf("%s: found at %q, %v", name, found.File.Path, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", name, err, want)
		case errors.Is(err, hook.ErrGone) != gone:
			t.Errorf("%s: %v; it is gone: %t", name, err, gone)
		}
	}
}
