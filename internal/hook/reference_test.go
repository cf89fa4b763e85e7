package hook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"addon-operator/internal/hook"
)

// page contains the tables and code blocks of a page in docs/reference, by the heading above them.
type page struct {
	rows   map[string][][]string // the cells of the first table below each heading
	blocks map[string][]string   // the code blocks below each heading; each text begins with the language of the block and a space
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
	if err != nil {
		t.Fatal(err)
	}
	p := page{rows: map[string][][]string{}, blocks: map[string][]string{}}
	heading, code, open := "", "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch fence, isFence := strings.CutPrefix(line, "```"); {
		case isFence && !open:
			open, code = true, fence+" "
		case isFence:
			open = false
			p.blocks[heading] = append(p.blocks[heading], code)
		case open:
			code += line + "\n"
		case strings.HasPrefix(line, "#"):
			heading = strings.Trim(line, "# ")
		case strings.HasPrefix(line, "| `"):
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.Trim(cell, " "))
			}
			p.rows[heading] = append(p.rows[heading], cells)
		}
	}
	return p
}

// keys returns the cells in the first column of the table below a heading, sorted and without backquotes.
func (p page) keys(heading string) []string {
	var keys []string
	for _, row := range p.rows[heading] {
		keys = append(keys, strings.Trim(row[0], "`"))
	}
	slices.Sort(keys)
	return keys
}

// known returns the keys that Load lists as known in its errors for an unknown key, for global hooks and for module
// hooks. config must have exactly one unknown key.
func known(t *testing.T, config string) []string {
	t.Helper()
	var all []string
	for _, scope := range []hook.Scope{hook.Global, hook.Module} {
		_, err := hook.Load(scope, []byte(config))
		if err == nil {
			t.Fatalf("%s is accepted", config)
		}
		_, list, found := strings.Cut(err.Error(), "known are ")
		if !found {
			t.Fatalf("%s: %v", config, err)
		}
		list, _, _ = strings.Cut(list, "\n")
		all = append(all, strings.Split(list, ", ")...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestReferenceNamesEveryKeyOfAConfig(t *testing.T) {
	t.Parallel()
	p := readPage(t, "hook-config.md")
	kubernetes := func(rest string) string { return "{configVersion: v1, kubernetes: [{kind: Pod, " + rest + "}]}" }
	for heading, config := range map[string]string{
		"The root":                           "{configVersion: v1, zzz: 1}",
		"`schedule[]`":                       "{configVersion: v1, schedule: [{crontab: '@hourly', zzz: 1}]}",
		"`kubernetes[]`":                     kubernetes("zzz: 1"),
		"`nameSelector`":                     kubernetes("nameSelector: {matchNames: [], zzz: 1}"),
		"`labelSelector`":                    kubernetes("labelSelector: {matchLabels: {}, zzz: 1}"),
		"`labelSelector.matchExpressions[]`": kubernetes("labelSelector: {matchExpressions: [{key: a, operator: Exists, zzz: 1}]}"),
		"`fieldSelector`":                    kubernetes("fieldSelector: {matchExpressions: [], zzz: 1}"),
		"`fieldSelector.matchExpressions[]`": kubernetes("fieldSelector: {matchExpressions: [{field: a, operator: '=', value: b, zzz: 1}]}"),
		"`namespace`":                        kubernetes("namespace: {labelSelector: {matchLabels: {}}, zzz: 1}"),
		"`settings`":                         "{configVersion: v1, settings: {zzz: 1}}",
	} {
		if diff := cmp.Diff(known(t, config), p.keys(heading)); diff != "" {
			t.Errorf("%s: the page has other keys (-known +page):\n%s", heading, diff)
		}
	}
	legacy := slices.DeleteFunc(known(t, "{zzz: 1}"), func(key string) bool { return key == "configVersion" })
	if diff := cmp.Diff(legacy, p.keys("The legacy root")); diff != "" {
		t.Errorf("The legacy root: the page has other keys (-known +page):\n%s", diff)
	}
}

// TestReferenceNamesLegacyKeysThatAreRead checks the keys of legacy bindings. Load ignores unknown keys there, so the
// test treats a key as known if a wrong value of it is an error.
func TestReferenceNamesLegacyKeysThatAreRead(t *testing.T) {
	t.Parallel()
	p := readPage(t, "hook-config.md")
	for heading, list := range map[string]string{"Legacy `schedule[]`": "schedule", "`onKubernetesEvent[]`": "onKubernetesEvent"} {
		keys := p.keys(heading)
		if len(keys) < 3 {
			t.Errorf("%s has the keys %q", heading, keys)
		}
		for _, key := range keys {
			_, err := hook.Load(hook.Module, []byte(fmt.Sprintf("{%s: [{%s: 1}]}", list, key)))
			if want := list + "[0]." + key + ": must be "; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: a wrong %s gives %v", heading, key, err)
			}
		}
	}
}

func TestReferenceNamesTheDefaults(t *testing.T) {
	t.Parallel()
	p := readPage(t, "hook-config.md")
	config, err := hook.Load(hook.Module, []byte("{configVersion: v1, kubernetes: [{kind: Pod}], schedule: [{crontab: '@hourly'}], settings: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := hook.Load(hook.Module, []byte("{onKubernetesEvent: [{kind: Pod}], schedule: [{crontab: '@hourly'}]}"))
	if err != nil {
		t.Fatal(err)
	}
	for heading, read := range map[string]any{
		"`schedule[]`": config.Schedule[0], "`kubernetes[]`": config.Kubernetes[0], "`settings`": config.Settings,
		"Legacy `schedule[]`": legacy.Schedule[0], "`onKubernetesEvent[]`": legacy.Kubernetes[0],
	} {
		values := map[string]any{"allowFailure": false} // false is omitted from the JSON of the binding
		text, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		values["event"] = []any{"add", "update", "delete"} // as in TestEveryFieldOfALegacyConfigIsRead
		compared := 0
		for _, row := range p.rows[heading] {
			if row[2] == "" {
				continue
			}
			var want any
			if err := yaml.Unmarshal([]byte(strings.Trim(row[2], "`")), &want); err != nil {
				t.Fatal(err)
			}
			compared++
			if diff := cmp.Diff(want, values[strings.Trim(row[0], "`")]); diff != "" {
				t.Errorf("%s: the default of %s is another (-page +read):\n%s", heading, row[0], diff)
			}
		}
		if compared == 0 {
			t.Errorf("%s has no default", heading)
		}
	}
}

func TestErrorsOfTheReferenceAreThoseGiven(t *testing.T) {
	t.Parallel()
	rows := readPage(t, "hook-config.md").rows["Errors"]
	if len(rows) < 10 {
		t.Fatalf("there are only %d", len(rows))
	}
	for _, row := range rows {
		_, err := hook.Load(hook.Module, []byte(strings.Trim(row[0], "`")))
		if err == nil || err.Error() != strings.Trim(row[1], "`") {
			t.Errorf("%s\ngives    %v\nthe page %s", row[0], err, row[1])
		}
	}
}

func TestConfigsOfTheReferenceAreValid(t *testing.T) {
	t.Parallel()
	found := 0
	for heading, blocks := range readPage(t, "hook-config.md").blocks {
		for _, block := range blocks {
			if config, isConfig := strings.CutPrefix(block, "yaml "); isConfig {
				found++
				if _, err := hook.Load(hook.Module, []byte(config)); err != nil {
					t.Errorf("%s: %v", heading, err)
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d configs were found", found)
	}
}

func TestConfigOfWritingHooksIsValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/writing-hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\nconfigVersion")
	config, _, found := strings.Cut(rest, "```")
	if _, err := hook.Load(hook.Module, []byte("configVersion"+config)); err != nil || !found {
		t.Errorf("%v, found %t", err, found)
	}
}

// documented returns the elements that must be encoded as in the examples on the reference page of binding contexts,
// by heading.
func documented() map[string][][]hook.Element {
	one := func(e hook.Element) []hook.Element { return []hook.Element{e} }
	item := func(name, result string) hook.Item {
		return hook.Item{
			Object:       json.RawMessage(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":%q}}`, name)),
			FilterResult: json.RawMessage(result),
		}
	}
	web := item("web-0", `"Running"`)
	pods := map[string][]hook.Item{"pods": {{FilterResult: web.FilterResult}}}
	return map[string][][]hook.Element{
		"Startup": {one(hook.Element{Binding: hook.OnStartup})},
		"The other numbered bindings": {
			one(hook.Element{Binding: hook.BeforeHelm, Snapshots: pods}),
			one(hook.Element{Binding: hook.BeforeHelm, Snapshots: map[string][]hook.Item{}}),
		},
		"Schedule": {
			one(hook.Element{Binding: "nightly", Type: hook.TypeSchedule}),
			one(hook.Element{Binding: "nightly", Type: hook.TypeSchedule, Snapshots: pods}),
		},
		"Synchronization": {
			one(hook.Element{Binding: "pods", Type: hook.TypeSynchronization, Objects: []hook.Item{web}}),
			one(hook.Element{Binding: "pods", Type: hook.TypeSynchronization}),
		},
		"Event": {
			one(hook.Element{Binding: "pods", Type: hook.TypeEvent, WatchEvent: hook.Modified, Item: web}),
			one(hook.Element{Binding: "pods", Type: hook.TypeEvent, WatchEvent: hook.Added, Item: hook.Item{FilterResult: json.RawMessage("null")}}),
		},
		"Group": {one(hook.Element{Binding: "pods", Type: hook.TypeEvent, WatchEvent: hook.Deleted, Group: "web", Item: web, Snapshots: pods})},
		"Several at once": {hook.Compact([]hook.Element{
			{Binding: "pods", Type: hook.TypeEvent, WatchEvent: hook.Added, Item: hook.Item{FilterResult: json.RawMessage(`"Pending"`)}, Snapshots: pods},
			{Binding: "pods", Type: hook.TypeEvent, WatchEvent: hook.Modified, Item: hook.Item{FilterResult: json.RawMessage(`"Running"`)}, Snapshots: pods},
			{Binding: "nightly", Type: hook.TypeSchedule},
		})},
		"Hooks without configVersion": {
			one(hook.Element{Binding: hook.BeforeHelm, Legacy: true}),
			one(hook.Element{
				Binding: "web", Type: hook.TypeEvent, WatchEvent: hook.Modified, Legacy: true,
				Named: hook.Named{Kind: "Pod", Namespace: "default", Name: "web-0"},
			}),
		},
	}
}

func TestContextsOfTheReferenceAreThoseTold(t *testing.T) {
	t.Parallel()
	p := readPage(t, "binding-context.md")
	for heading, contexts := range documented() {
		var want, got []string
		for _, elements := range contexts {
			text, err := hook.Encode(elements)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(text))
		}
		for _, block := range p.blocks[heading] {
			text, isJSON := strings.CutPrefix(block, "json ")
			var compact bytes.Buffer
			if !isJSON {
				continue
			}
			if err := json.Compact(&compact, []byte(text)); err != nil {
				t.Errorf("%s: %v", heading, err)
			}
			got = append(got, compact.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +page):\n%s", heading, diff)
		}
	}
}

// variables returns the names of the environment variables that a hook has printed, except PATH and the variables that
// the shell itself sets.
func variables(t *testing.T, printed []string) []string {
	t.Helper()
	var names []string
	for _, line := range printed {
		name, _, ok := strings.Cut(line, "=")
		if ok && !slices.Contains([]string{"PATH", "PWD", "OLDPWD", "SHLVL", "_"}, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestReferenceNamesEveryVariableOfARun(t *testing.T) {
	t.Parallel()
	p := readPage(t, "hook-run.md")
	r := newRunner(t, hook.Options{StoreID: "store-1", Env: []string{"PATH=" + os.Getenv("PATH"), "TRACESTATE=of=another"}})

	var out lines
	run := scriptRun(t, "env")
	run.Output, run.TraceParent = out.add, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if _, err := r.Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	documented := slices.Concat(p.keys("Which run it is"), p.keys("Its trace"), p.keys("Files it reads"), p.keys("Files it writes"))
	slices.Sort(documented)
	if diff := cmp.Diff(variables(t, out.of(hook.Stdout)), documented); diff != "" {
		t.Errorf("a hook is given other variables than the page names (-given +named):\n%s", diff)
	}

	var asked lines
	enabled := hook.EnabledRun{
		Path: script(t, filepath.Join(t.TempDir(), "enabled"), `env; echo true >"$MODULE_ENABLED_RESULT"`), Module: "some", Attempt: 1, Output: asked.add,
	}
	if _, _, err := r.Enabled(t.Context(), enabled); err != nil {
		t.Fatal(err)
	}
	documented = slices.Concat(p.keys("Which run it is"), p.keys("An `enabled` script"))
	slices.Sort(documented)
	if diff := cmp.Diff(variables(t, asked.of(hook.Stdout)), documented); diff != "" {
		t.Errorf("an enabled script is given other variables than the page names (-given +named):\n%s", diff)
	}
}
