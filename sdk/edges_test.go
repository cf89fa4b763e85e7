package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/sdk"
)

func TestADocumentIsReadLikeTheValuesOfAHook(t *testing.T) {
	t.Parallel()
	document := map[string]any{"web": map[string]any{"port": 80, "hosts": []string{"a", "b"}, "limits": struct {
		CPU string `json:"cpu"`
	}{"1"}}}
	v, err := sdk.ValuesOf(document)
	if err != nil {
		t.Fatal(err)
	}
	is(t, v, "web.port", 0, 80)
	is(t, v, "web.hosts[1]", "", "b")
	is(t, v, "web.limits.cpu", "", "1")
	v.Set("web.hosts.0", "c")
	is(t, v, "web.hosts.0", "", "c")
	if document["web"].(map[string]any)["hosts"].([]string)[0] != "a" { //nolint:forcetypeassert // as written above
		t.Error("the document is changed")
	}
	empty, err := sdk.ValuesOf(nil)
	if err != nil || empty.Has("web") {
		t.Errorf("no document has values, error %v", err)
	}
	empty.Set("web.a", 1)
	is(t, empty, "web.a", 0, 1)
	if _, err := sdk.ValuesOf(map[string]any{"a": make(chan int)}); err == nil {
		t.Error("a document that JSON cannot have is read")
	}
}

func TestAChangeAfterASetDoesNotChangeThePatch(t *testing.T) {
	t.Parallel()
	list := []string{"a"}
	written, code, stderr := files{"VALUES_PATH": "{}"}.run(t, func(r *sdk.Run) error {
		r.Values.Set("web.list", list)
		list[0] = "changed by the hook"
		r.Values.Set("web.list.0", "b")
		return nil
	})
	if code != 0 {
		t.Fatal(stderr)
	}
	sameFiles(t, files{"VALUES_JSON_PATCH_PATH": `{"op":"add","path":"/web/list","value":["a"]}{"op":"add","path":"/web/list","value":["b"]}`}, written)
}

func TestAllWrongChangesOfARunAreNamed(t *testing.T) {
	t.Parallel()
	const values = `{"web":{"text":"t","list":[[1],"x"]}}`
	for name, c := range map[string]struct {
		do   func(r *sdk.Run)
		want []string // the lines of the error
	}{
		"values": {func(r *sdk.Run) {
			r.Values.Set("", 1)
			r.Values.Set("web.text.a", 1)
			r.Values.Set("web.list.0.7", 1)
			r.Values.Set("web.list.1.a", 1)
			r.Values.Remove("web.")
		}, []string{
			`set : path "": a key is missing: separate keys with dots`, "set web.text.a: web.text is neither an object nor a list", `set web.list.0.7: "7" is not an index of a list of length 1`,
			`set web.list.1.a: "a" cannot be set below a value that is neither an object nor a list`, `remove web.: path "web.": a key is missing: separate keys with dots`,
		}},
		"objects": {func(r *sdk.Run) {
			r.Objects.CreateOrUpdate([]int{1})
			r.Objects.CreateIfNotExists(map[string]any{"kind": "Pod"})
			r.Objects.Delete(sdk.Ref{Name: "a", Namespace: "n"})
			r.Objects.MergePatch(sdk.Ref{Kind: "Pod", Name: "a"}, func() {})
			r.Objects.JSONPatch(sdk.Ref{Kind: "Pod", Namespace: "n", Name: "a"}, []sdk.Change{{Op: "add", Path: "/a", Value: nan()}})
		}, []string{
			"CreateOrUpdate: the value is not an object", "CreateIfNotExists: the object has no kind or no apiVersion; set the TypeMeta of a struct",
			"Delete of  n/a: a kind and a name are needed", "MergePatch of Pod a: json: unsupported type: func()", "JSONPatch of Pod n/a: json: ",
		}},
		"an answer to an admission": {func(r *sdk.Run) { r.AllowChanged([]sdk.Change{{Op: "add", Path: "/a", Value: nan()}}) }, []string{"changes of a mutating answer: json: "}},
		"a converted object":        {func(r *sdk.Run) { r.Converted(map[string]any{"a": nan()}) }, []string{"converted objects: json: unsupported value: NaN"}},
	} {
		written, code, stderr := files{"VALUES_PATH": values}.run(t, func(r *sdk.Run) error { c.do(r); return nil })
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		if code != 1 || len(lines) != len(c.want) || len(written) > 0 {
			t.Errorf("%s: code %d, wrote %v, error\n%s", name, code, written, stderr)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: line %q, want %q", name, lines[i], want)
			}
		}
	}
}

func TestRemovalsFromNestedListsReplaceTheOutermostOne(t *testing.T) {
	t.Parallel()
	const values = `{"web":{"list":[[1,2,3],{"a":[4,5]}]}}`
	for path, want := range map[string]string{
		"web.list.0.1":    `[[1,3],{"a":[4,5]}]`,
		"web.list[1].a.0": `[[1,2,3],{"a":[5]}]`,
		"web.list[1].a":   `[[1,2,3],{}]`,
		"web.list.0":      `[{"a":[4,5]}]`,
		"web.list.0.9":    "",
		"web.list.x":      "",
		"web.list.-1":     "",
	} {
		written, code, stderr := files{"VALUES_PATH": values}.run(t, func(r *sdk.Run) error { r.Values.Remove(path); return nil })
		patch := files{}
		if want != "" {
			patch["VALUES_JSON_PATCH_PATH"] = `{"op":"add","path":"/web/list","value":` + want + `}`
		}
		if code != 0 {
			t.Errorf("%s: %s", path, stderr)
		}
		sameFiles(t, patch, written)
	}
}

func TestAReferenceIsNamedByKindNamespaceAndName(t *testing.T) {
	t.Parallel()
	for want, ref := range map[string]sdk.Ref{"Pod n/a": {APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: "a"}, "Node a": {Kind: "Node", Name: "a"}} {
		if got := ref.String(); got != want {
			t.Errorf("%+v is %q, want %q", ref, got, want)
		}
	}
}

func TestAChangeHasTheFieldsOfItsOperationOnly(t *testing.T) {
	t.Parallel()
	full := sdk.Change{Path: "/a", From: "/b", Value: 1}
	for op, want := range map[string]string{
		"add": `{"op":"add","path":"/a","value":1}`, "replace": `{"op":"replace","path":"/a","value":1}`, "test": `{"op":"test","path":"/a","value":1}`,
		"move": `{"from":"/b","op":"move","path":"/a"}`, "copy": `{"from":"/b","op":"copy","path":"/a"}`, "remove": `{"op":"remove","path":"/a"}`,
	} {
		full.Op = op
		if got, err := json.Marshal(full); err != nil || string(got) != want {
			t.Errorf("%s: %s, error %v, want %s", op, got, err, want)
		}
	}
}

func TestAReviewIsReadByTheElementsOfItsTypeOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		element               sdk.Element
		admission, conversion string // the errors of AdmissionRequest and of ConversionObjects
	}{
		"a validating element": {sdk.Element{Binding: "b", Type: sdk.TypeValidating, Review: json.RawMessage(`{}`)}, "", `binding b is of type "Validating", which has no such review`},
		"a mutating element":   {sdk.Element{Binding: "b", Type: sdk.TypeMutating, Review: json.RawMessage(`{}`)}, "", `binding b is of type "Mutating", which has no such review`},
		"a conversion":         {sdk.Element{Binding: "b", Type: sdk.TypeConversion, Review: json.RawMessage(`{}`)}, `binding b is of type "Conversion", which has no such review`, ""},
		"an event":             {sdk.Element{Binding: "b", Type: sdk.TypeEvent}, `binding b is of type "Event", which has no such review`, `binding b is of type "Event", which has no such review`},
		"an ordered binding":   {sdk.Element{Binding: "b"}, `binding b is of type "", which has no such review`, `binding b is of type "", which has no such review`},
		"a damaged review":     {sdk.Element{Binding: "b", Type: sdk.TypeMutating, Review: json.RawMessage(`{`)}, "review of b: unexpected end of JSON input", `binding b is of type "Mutating", which has no such review`},
	} {
		text := func(err error) string {
			if err == nil {
				return ""
			}
			return err.Error()
		}
		_, err := c.element.AdmissionRequest()
		if got := text(err); got != c.admission {
			t.Errorf("%s as an admission: %q, want %q", name, got, c.admission)
		}
		if got := text(second(c.element.ConversionObjects())); got != c.conversion {
			t.Errorf("%s as a conversion: %q, want %q", name, got, c.conversion)
		}
	}
}

func TestAnItemIsItsFilterResultBeforeItsObject(t *testing.T) {
	t.Parallel()
	items := []sdk.Item{
		{Object: json.RawMessage(`"object"`), FilterResult: json.RawMessage(`"result"`)}, {Object: json.RawMessage(`"object"`)}, {Object: json.RawMessage(`"object"`), FilterResult: json.RawMessage(`null`)},
	}
	got, err := sdk.DecodeAll[*string](items)
	if err != nil || len(got) != 3 || *got[0] != "result" || *got[1] != "object" || got[2] != nil {
		t.Errorf("%v, error %v", got, err)
	}
	if none, err := sdk.DecodeAll[string](nil); none == nil || len(none) != 0 || err != nil {
		t.Errorf("no items are %v, error %v", none, err)
	}
	if _, err := sdk.DecodeAll[int](items[1:]); err == nil || !strings.HasPrefix(err.Error(), "item 0: the item is not of type int: ") {
		t.Errorf("error %v", err)
	}
}

func TestTheLastValueOfAVariableCounts(t *testing.T) {
	t.Parallel()
	env, _ := files{}.env(t)
	other := filepath.Join(t.TempDir(), "patch")
	env = append([]string{"ADDON_OPERATOR_ATTEMPT=7", "VALUES_JSON_PATCH_PATH=/no/such/file"}, append(env, "ADDON_OPERATOR_ATTEMPT=3", "VALUES_JSON_PATCH_PATH="+other, "XVALUES_JSON_PATCH_PATH=/no")...)
	attempt := 0
	hook := sdk.Hook{Run: func(_ context.Context, r *sdk.Run) error { attempt = r.Attempt; r.Values.Set("web.a", 1); return nil }}
	var out, failed bytes.Buffer
	if code := hook.Execute(t.Context(), nil, env, &out, &failed); code != 0 || attempt != 3 {
		t.Errorf("code %d, attempt %d: %s", code, attempt, &failed)
	}
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(documents(t, `{"op":"add","path":"/web/a","value":1}`), documents(t, string(text))); diff != "" {
		t.Errorf("the last file (-want +got):\n%s", diff)
	}
}

func TestAnAttemptThatTheOperatorDoesNotReportIsZero(t *testing.T) {
	t.Parallel()
	env, _ := files{}.env(t)
	for value, want := range map[string]int{"": 0, "two": 0, "2": 2} {
		got := -1
		hook := sdk.Hook{Run: func(_ context.Context, r *sdk.Run) error { got = r.Attempt; return nil }}
		if code := hook.Execute(t.Context(), nil, append(env, "ADDON_OPERATOR_ATTEMPT="+value), &bytes.Buffer{}, &bytes.Buffer{}); code != 0 || got != want {
			t.Errorf("ADDON_OPERATOR_ATTEMPT=%s: attempt %d, code %d", value, got, code)
		}
	}
}

func TestAFileThatCannotBeWrittenFailsTheRun(t *testing.T) {
	t.Parallel()
	env, _ := files{}.env(t)
	env = append(env, "METRICS_PATH="+filepath.Join(t.TempDir(), "none", "metrics"))
	hook := sdk.Hook{Run: func(_ context.Context, r *sdk.Run) error { r.Metrics.Set("m", 1, nil); return nil }}
	var failed bytes.Buffer
	if code := hook.Execute(t.Context(), nil, env, &bytes.Buffer{}, &failed); code != 1 || !strings.HasPrefix(failed.String(), "METRICS_PATH: open ") {
		t.Errorf("code %d: %s", code, &failed)
	}
}

func TestTheContextOfARunEndsWithTheHook(t *testing.T) {
	t.Parallel()
	env, _ := files{}.env(t)
	ctx, cancel := context.WithCancel(t.Context())
	hook := sdk.Hook{Run: func(ctx context.Context, _ *sdk.Run) error {
		cancel()
		<-ctx.Done()
		return errors.New("stopped")
	}}
	var failed bytes.Buffer
	if code := hook.Execute(ctx, nil, env, &bytes.Buffer{}, &failed); code != 1 || failed.String() != "stopped\n" {
		t.Errorf("code %d: %q", code, failed.String())
	}
}

func TestLinesOfTheLogHaveTheLevelsOfTheOperator(t *testing.T) {
	t.Parallel()
	env, _ := files{}.env(t)
	hook := sdk.Hook{Run: func(_ context.Context, r *sdk.Run) error {
		r.Log.Debug("d")
		r.Log.Info("i")
		r.Log.WithGroup("g").Warn("w", "level", "HIGH")
		r.Log.Error("e")
		return nil
	}}
	var out bytes.Buffer
	if code := hook.Execute(t.Context(), nil, env, &out, &bytes.Buffer{}); code != 0 {
		t.Fatal(code)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var fields struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
			Time  string `json:"time"`
			G     struct {
				Level string `json:"level"`
			} `json:"g"`
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil || fields.Time == "" {
			t.Fatalf("%v: %s", err, line)
		}
		got = append(got, strings.TrimSpace(fields.Msg+" "+fields.Level+" "+fields.G.Level))
	}
	if diff := cmp.Diff([]string{"d debug", "i info", "w warn HIGH", "e error"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAConfigIsPrintedWithoutARun(t *testing.T) {
	t.Parallel()
	hook := sdk.Hook{Config: sdk.Config{OnStartup: new(1)}, Run: func(context.Context, *sdk.Run) error { return errors.New("it runs") }}
	var out, failed bytes.Buffer
	if code := hook.Execute(t.Context(), []string{"--config", "more"}, nil, &out, &failed); code != 0 || out.String() != "{\n  \"configVersion\": \"v1\",\n  \"onStartup\": 1\n}\n" {
		t.Errorf("code %d, %q, error %s", code, out.String(), &failed)
	}
	if code := hook.Execute(t.Context(), []string{"--config"}, nil, brokenPipe{}, &failed); code != 1 || failed.String() != "broken pipe\n" {
		t.Errorf("a closed output: code %d, %q", code, failed.String())
	}
}

// A brokenPipe is an output that nobody reads.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
