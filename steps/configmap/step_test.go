package configmap

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestAnUnreadableRecordOfTheConfigMapIsReplacedByTheNextRead(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		tx.Put(store.AppliedConfigKey(), []byte(`{"config":`))
		return nil
	})
	read := readConfig{ResourceVersion: "7", Config: values.Config{Sections: values.Values{"web": map[string]any{"size": 2.0}}}}
	if err := s.DB.View(func(tx *store.Tx) error {
		c, err := readChange(tx, read)
		if err == nil && len(c.before.Sections) > 0 {
			t.Errorf("the lost content is %+v", c.before)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	step := New(s, nil, nil, nil)
	var facts []graph.Fact
	scantest.Update(t, s.DB, func(tx *store.Tx) (err error) {
		facts, err = step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data})
		return err
	})
	if !slices.Equal(facts, []graph.Fact{lifecycle.GlobalChanged}) {
		t.Errorf("facts: %q, want that everything may have changed", facts)
	}
	if err := s.DB.View(func(tx *store.Tx) error {
		c, _, err := sections.LoadApplied(tx)
		if err == nil && c.Sections["web"] == nil {
			t.Errorf("in force is %+v", c)
		}
		n := 0
		for d, err := range store.AllDamaged(tx) {
			if n++; err != nil || d.String() != "record configmap/applied" {
				t.Errorf("damaged is %s: %v", d, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records were moved, want 1", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestASectionThatAJournalAnnouncesIsNotInForceBeforeItsTaskEnds(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	before := values.Config{Sections: values.Values{"web": map[string]any{"n": int64(1)}}}
	w, err := sections.PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/n", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	effect, err := desired.EffectOf(*w)
	if err != nil {
		t.Fatal(err)
	}
	read := readConfig{ResourceVersion: "7", Config: values.Config{Sections: values.Values{
		"web": map[string]any{"n": int64(2)}, "other": map[string]any{"n": int64(2)},
	}}}
	data, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	step := New(s, nil, nil, nil)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		journal := store.JournalKey(store.ID{Epoch: 1, N: 1})
		if err := store.Save(tx, journal, workflow.Outcome{Effects: []workflow.Effect{effect}}); err != nil {
			return err
		}
		defer tx.Delete(journal) // because the check of the store rejects a journal without a task
		if err := s.ConfigMap.SaveApplied(tx, before, "6"); err != nil {
			return err
		}
		_, err := step.Apply(tx, workflow.Task{}, workflow.Outcome{Data: data})
		return err
	})
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		now, _, err := sections.LoadApplied(tx)
		if diff := cmp.Diff(values.Values{"web": map[string]any{"n": int64(1)}, "other": map[string]any{"n": int64(2)}}, now.Sections); diff != "" {
			t.Errorf("in force (-want +got):\n%s", diff)
		}
		return err
	})
}

func TestTheHistoryNamesTheFlagsThatAChangeOfTheConfigMapSets(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	before := values.Config{Flags: map[string]bool{"webEnabled": true, "dbEnabled": true, "appEnabled": true}}
	now := values.Config{Flags: map[string]bool{"webEnabled": false, "appEnabled": true, "newEnabled": true}}
	want := &store.ValueChanges{List: []store.ValueChange{
		{Path: "/dbEnabled", Old: "true"}, {Path: "/newEnabled", New: "true"}, {Path: "/webEnabled", Old: "true", New: "false"},
	}}
	for name, test := range map[string]struct {
		read time.Time
		want *store.ValueChanges
	}{"the first content": {time.Time{}, nil}, "a change": {time.Now(), want}} {
		c := configChange{before: before, record: store.AppliedConfig{At: test.read}}
		got, err := New(s, nil, nil, nil).valueChanges(c, now)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// apply calls Apply with the content in the argument read, and returns the facts.
func apply(t *testing.T, s *scan.State, read readConfig) (facts []graph.Fact) {
	t.Helper()
	data, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) (err error) {
		facts, err = New(s, nil, nil, nil).Apply(tx, workflow.Task{Task: store.Task{Run: 7}}, workflow.Outcome{Data: data})
		return err
	})
	return facts
}

func TestAChangeOfTheConfigMapReportsTheWidestOfItsParts(t *testing.T) {
	t.Parallel()
	before := []string{"global", "{size: 1}", "web", "{size: 1}", "webEnabled", "true"}
	for name, c := range map[string]struct {
		before, now []string
		broken      string // a module that cannot be loaded
		want        []graph.Fact
	}{
		"the first content":                        {nil, before, "", []graph.Fact{lifecycle.GlobalChanged}},
		"the first content is empty":               {nil, nil, "", []graph.Fact{lifecycle.GlobalChanged}},
		"the same content":                         {before, before, "", nil},
		"other spelling":                           {before, []string{"global", "size: 1", "web", `{"size": 1}`, "webEnabled", "true"}, "", nil},
		"a key of no module":                       {before, append([]string{"other", "{}"}, before...), "", nil},
		"a section":                                {before, []string{"global", "{size: 1}", "web", "{size: 2}", "webEnabled", "true"}, "", []graph.Fact{lifecycle.ModuleChanged}},
		"the section of a module that is broken":   {before, []string{"global", "{size: 1}", "web", "{size: 2}", "webEnabled", "true"}, "web", []graph.Fact{lifecycle.GlobalChanged}},
		"a section, and another module is broken":  {before, []string{"global", "{size: 1}", "web", "{size: 2}", "webEnabled", "true"}, "db", []graph.Fact{lifecycle.ModuleChanged}},
		"a section and a flag":                     {before, []string{"global", "{size: 1}", "web", "{size: 2}", "webEnabled", "false"}, "", []graph.Fact{lifecycle.FlagsChanged}},
		"a flag is gone":                           {before, []string{"global", "{size: 1}", "web", "{size: 1}"}, "", []graph.Fact{lifecycle.FlagsChanged}},
		"a section, a flag and the global section": {before, []string{"global", "{size: 2}", "web", "{size: 2}"}, "", []graph.Fact{lifecycle.GlobalChanged}},
		"all is gone":                              {before, nil, "", []graph.Fact{lifecycle.GlobalChanged}},
	} {
		s, _ := scantest.New(t)
		scantest.Scan(t, s)
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			if c.broken != "" {
				if err := store.Save(tx, store.ModuleKey(c.broken), store.Module{State: store.On, Broken: "bad"}); err != nil {
					return err
				}
			}
			if c.before == nil {
				return nil
			}
			return s.ConfigMap.SaveApplied(tx, scantest.Config(t, c.before...), "1")
		})
		now := scantest.Config(t, c.now...)
		if diff := cmp.Diff(c.want, apply(t, s, readConfig{ResourceVersion: "2", Config: now})); diff != "" {
			t.Errorf("%s: facts (-want +got):\n%s", name, diff)
		}
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			config, record, err := sections.LoadApplied(tx)
			if diff := cmp.Diff(now, config, cmpopts.EquateEmpty()); diff != "" || record.ResourceVersion != "2" {
				t.Errorf("%s: in force is version %q (-want +got):\n%s", name, record.ResourceVersion, diff)
			}
			return err
		})
	}
}

func TestAChangedSectionMakesTheEnabledScriptOfItsModuleDecideAgain(t *testing.T) {
	t.Parallel()
	// The script enables the module if its section has the size 2.
	const script = "#!/bin/sh\ngrep -q '\"judged\":{\"size\":2}' $CONFIG_VALUES_PATH && echo true >$MODULE_ENABLED_RESULT || echo false >$MODULE_ENABLED_RESULT\n"
	judged, other, web, maintained := []string{"judged", "{size: 2}"}, []string{"judged", "{size: 3}"}, []string{"web", "{size: 2}"}, []string{"judgedMaintenance", values.NoReconciliation}
	for name, c := range map[string]struct {
		flag    string
		script  string
		change  []string
		failing bool
		want    graph.Fact
		runs    []string
	}{
		"the script must decide":                              {"true", script, judged, false, lifecycle.FlagsChanged, nil},
		"main fails, and the script still enables the module": {"true", script, judged, true, lifecycle.FlagsChanged, []string{"judged"}},
		"main fails, and the script disables the module":      {"true", script, other, true, lifecycle.FlagsChanged, nil},
		"main fails, and the script fails":                    {"true", "", judged, true, lifecycle.FlagsChanged, nil},
		"the script does not know what changed":               {"true", script, maintained, false, lifecycle.ModuleChanged, []string{"judged"}},
		"the flags disable the module of the script":          {"false", script, judged, false, lifecycle.ModuleChanged, []string{"judged"}},
		"a module without a script":                           {"true", script, web, false, lifecycle.ModuleChanged, []string{"web"}},
		"a module without a script, and main fails":           {"true", script, web, true, lifecycle.ModuleChanged, []string{"web"}},
	} {
		s, mounted := scantest.New(t)
		scantest.Program(t, mounted, "020-judged/enabled", c.script)
		scantest.Scan(t, s)
		before := scantest.Config(t, "judgedEnabled", c.flag)
		scantest.Update(t, s.DB, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, before, "1") })
		now := scantest.Config(t, append([]string{"judgedEnabled", c.flag}, c.change...)...)
		change := configChange{
			before: before, now: now, failing: c.failing,
			startup: store.Startup{StartRun: 4, Enabled: []string{"web", "judged"}},
			modules: map[string]store.Module{"web": {State: store.On, RanInStart: 4}, "judged": {State: store.On, RanInStart: 4}},
		}
		if diff := cmp.Diff(c.runs, affected(t, s, change)[lifecycle.Changed]); diff != "" {
			t.Errorf("%s: modules to run at once (-want +got):\n%s", name, diff)
		}
		if facts := apply(t, s, readConfig{ResourceVersion: "2", Config: now}); !slices.Equal(facts, []graph.Fact{c.want}) {
			t.Errorf("%s: facts %q, want %q", name, facts, c.want)
		}
	}
}

func TestTheRecordOfTheContentInForceSaysWhetherOnlyHooksHaveWrittenIt(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	for _, onlyHooks := range []bool{true, false} {
		apply(t, s, readConfig{ResourceVersion: "2", OnlyHooks: onlyHooks, Config: scantest.Config(t, "web", "{size: 1}")})
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			_, record, err := sections.LoadApplied(tx)
			if record.OnlyHooks != onlyHooks {
				t.Errorf("got %t, want %t", record.OnlyHooks, onlyHooks)
			}
			return err
		})
	}
}

// refusals is an Observer that records the errors of invalid content.
type refusals []string

func (r *refusals) ConfigRefused(version, why string) { *r = append(*r, version+": "+why) }

func TestInvalidContentIsReportedAndDoesNotReplaceTheContentInForce(t *testing.T) {
	t.Parallel()
	o, mounted, _ := scantest.Options(t)
	o.ConfigMap, o.GlobalHooksDir = new(kube.Client).ConfigMap("ops", "settings"), t.TempDir()
	s := scan.New(o, nil)
	scantest.Write(t, mounted, "010-web/openapi/config-values.yaml", "properties: {size: {type: integer}}")
	scantest.Scan(t, s)
	good := scantest.Config(t, "web", "{size: 1}", "webEnabled", "true")
	apply(t, s, readConfig{ResourceVersion: "1", Config: good})

	var reported refusals
	step := New(s, nil, nil, &reported)
	read := readConfig{ResourceVersion: "2", Config: scantest.Config(t, "web", "{size: large}", "webEnabled", "true")}
	if err := step.check(&read, good, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	const why = `ConfigMap key "web": `
	if !strings.HasPrefix(read.Error, why) || !strings.Contains(read.Error, "web.size must be of type integer") || len(read.Config.Sections) > 0 {
		t.Errorf("read %+v, want an error that names the key and the field, and no content", read)
	}
	if len(reported) != 1 || reported[0] != "2: "+read.Error {
		t.Errorf("reported %q, want the error of version 2", reported)
	}
	if facts := apply(t, s, read); len(facts) > 0 {
		t.Errorf("invalid content reports %q", facts)
	}
	refused := func() (r store.RefusedConfig, ok bool) {
		t.Helper()
		scantest.Update(t, s.DB, func(tx *store.Tx) (err error) {
			if r, ok, err = store.Load[store.RefusedConfig](tx, store.RefusedConfigKey()); err != nil {
				return err
			}
			config, record, err := sections.LoadApplied(tx)
			if diff := cmp.Diff(good, config); ok && (diff != "" || record.ResourceVersion != "1") {
				t.Errorf("in force is version %q (-want +got):\n%s", record.ResourceVersion, diff)
			}
			return err
		})
		return r, ok
	}
	want := store.RefusedConfig{ResourceVersion: "2", Error: read.Error, Fix: "kubectl -n ops edit configmap settings", Run: 7}
	if r, ok := refused(); !ok || r.At.IsZero() || cmp.Diff(want, r, cmpopts.IgnoreFields(store.RefusedConfig{}, "At")) != "" {
		t.Errorf("the record of the invalid content is %+v, want %+v", r, want)
	}

	read = readConfig{ResourceVersion: "3", Error: "syntax error"} // content that the parser has rejected
	if err := step.check(&read, good, nil); err != nil || len(reported) != 2 || reported[1] != "3: syntax error" {
		t.Errorf("reported %q, %v; want the error of each invalid content", reported, err)
	}
	read = readConfig{ResourceVersion: "4", Config: scantest.Config(t, "web", "{size: large}")} // the section of a disabled module
	if err := step.check(&read, good, nil); err != nil || read.Error != "" || len(reported) != 2 {
		t.Errorf("a section of a disabled module is rejected with %q, %v", read.Error, err)
	}
	apply(t, s, read)
	if r, ok := refused(); ok {
		t.Errorf("with valid content in force, the record of invalid content is %+v", r)
	}
}

func TestContentIsNotCheckedWithoutTheGlobalSchemas(t *testing.T) {
	t.Parallel()
	o, _, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	s := scan.New(o, nil)
	scantest.Write(t, o.GlobalHooksDir, "openapi/config-values.yaml", "type: [")
	scantest.Scan(t, s)
	var reported refusals
	read := readConfig{ResourceVersion: "2", Config: scantest.Config(t, "global", "{}")}
	err := New(s, nil, nil, &reported).check(&read, values.Config{}, nil)
	if err == nil || !strings.Contains(err.Error(), o.GlobalHooksDir+"/openapi/config-values.yaml") || read.Error != "" || len(reported) > 0 {
		t.Errorf("error %v, rejected with %q, reported %q; want an error that names the file, and no judgement of the content", err, read.Error, reported)
	}
}

func TestTheHistoryShowsTheValuesThatAChangeOfTheConfigMapChanges(t *testing.T) {
	t.Parallel()
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "values.yaml", "global: {kept: 1}")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1, kept: 1}")
	scantest.Scan(t, s)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		op := values.Op{Op: "add", Path: "/web/patched", Value: json.RawMessage("9")}
		return store.Save(tx, store.SavedKey("web"), []values.Saved{{Op: op, Hook: "web/h"}})
	})
	before := scantest.Config(t, "global", "{a: 1}", "web", "{patched: 1}")
	now := scantest.Config(t, "web", "{size: 2, patched: 2, password: hunter2}")
	got, err := New(s, nil, nil, nil).valueChanges(configChange{before: before, record: store.AppliedConfig{At: time.Now()}}, now)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, change := range got.List {
		if change.Path != "/web/password" {
			paths = append(paths, change.Path+" "+change.Old+" "+change.New)
		} else if change.New == "" || strings.Contains(change.New, "hunter2") {
			t.Errorf("the change of a password is shown as %+v", change)
		}
	}
	slices.Sort(paths)
	if diff := cmp.Diff([]string{"/global/a 1 ", "/web/size 1 2"}, paths); diff != "" || len(got.List) != 3 {
		t.Errorf("%d changes, without the password (-want +got):\n%s", len(got.List), diff)
	}
}
