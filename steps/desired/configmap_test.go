package desired_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/internal/values"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

// counted counts the notifications of changes.
type counted struct{ problems int }

func (c *counted) ProblemsChanged() { c.problems++ }

func appliedOf(t *testing.T, db *store.DB) (c values.Config, record store.AppliedConfig) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) (err error) {
		c, record, err = sections.LoadApplied(tx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return c, record
}

func TestContentInForceHasTheTimeOfTheLastChangeOfEachSection(t *testing.T) {
	t.Parallel()
	s, at := valuesState(t)
	first := at.now.Truncate(time.Second)
	for _, step := range []struct {
		version string
		config  []string
		want    map[string]int // minutes after the first step
	}{
		{"1", []string{"web", "a: 1", "other", "a: 1"}, map[string]int{"web": 0, "other": 0}},
		{"2", []string{"web", "a: 1", "other", "a: 2"}, map[string]int{"web": 0, "other": 1}},
		{"3", []string{"web", "a: 1.0", "other", "a: 2", "webEnabled", "true"}, map[string]int{"web": 0, "other": 1}}, // 1.0 is the same value as 1
		{"4", []string{"other", "{\"a\": 2}"}, map[string]int{"other": 1}},
		{"5", []string{"web", "a: 1", "other", "a: 2"}, map[string]int{"web": 4, "other": 1}},
	} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			return s.ConfigMap.SaveApplied(tx, scantest.Config(t, step.config...), step.version)
		})
		_, record := appliedOf(t, s.DB)
		want := map[string]time.Time{}
		for key, minutes := range step.want {
			want[key] = first.Add(time.Duration(minutes) * time.Minute)
		}
		if diff := cmp.Diff(want, record.Changed); diff != "" {
			t.Errorf("version %s (-want +got):\n%s", step.version, diff)
		}
		if record.ResourceVersion != step.version || !record.At.Equal(at.now) {
			t.Errorf("version %s: the record has the version %s and the time %s", step.version, record.ResourceVersion, record.At)
		}
		at.now = at.now.Add(time.Minute)
	}
}

// Records of earlier versions of the operator have no times of sections.
func TestAnUnchangedSectionWithoutATimeGetsThatOfTheRecord(t *testing.T) {
	t.Parallel()
	s, at := valuesState(t)
	written := at.now.Add(-time.Hour)
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		config, err := json.Marshal(scantest.Config(t, "web", "a: 1"))
		return errors.Join(err, store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{ResourceVersion: "1", Config: config, At: written}))
	})
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", "a: 1", "other", "b: 1"), "2")
	})
	_, record := appliedOf(t, s.DB)
	want := map[string]time.Time{"web": written.Truncate(time.Second), "other": at.now.Truncate(time.Second)}
	if diff := cmp.Diff(want, record.Changed); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestADamagedRecordOfTheContentInForceIsReplaced(t *testing.T) {
	t.Parallel()
	s, at := valuesState(t)
	scantest.Update(t, s.DB, func(tx *store.Tx) error { tx.Put(store.AppliedConfigKey(), []byte("{")); return nil })
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", "a: 1"), "2")
	})
	config, record := appliedOf(t, s.DB)
	if want := scantest.Config(t, "web", "a: 1"); !equalConfigs(config, want) || !record.Changed["web"].Equal(at.now.Truncate(time.Second)) {
		t.Errorf("got %v, changed at %v, want %v", config, record.Changed, want)
	}
}

func TestObserversAreNotifiedOfNewContentAfterItsCommit(t *testing.T) {
	t.Parallel()
	o, _, _ := scantest.Options(t)
	var seen counted
	s := scan.New(o, &seen)
	failure := errors.New("no")
	if err := s.DB.Update(func(tx *store.Tx) error {
		return errors.Join(s.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", "a: 1"), "1"), failure)
	}); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if seen != (counted{}) {
		t.Errorf("of a failed transaction, observers were notified: %+v", seen)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		err := s.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", "a: 1"), "1")
		if seen != (counted{}) {
			t.Errorf("before the commit, observers were notified: %+v", seen)
		}
		return err
	})
	if seen != (counted{1}) {
		t.Errorf("after the commit, observers were notified: %+v", seen)
	}
}

func TestAChangeThatAHookHasWrittenIsInForceWithoutTheWatch(t *testing.T) {
	t.Parallel()
	on := true
	ops := []values.Op{add("/web/a", "2")}
	for name, test := range map[string]struct {
		before  []string // content in force; nil if there is none
		seen    []string // content that the hook has received
		flags   map[string]*bool
		want    []string
		version string
		changed bool
	}{
		"first content":           {nil, nil, nil, []string{"web", "a: 2"}, "0", true},
		"changed section":         {[]string{"web", "a: 1", "other", "b: 1"}, []string{"web", "a: 1"}, nil, []string{"web", "a: 2", "other", "b: 1"}, "7", true},
		"flag":                    {[]string{"web", "a: 1"}, []string{"web", "a: 1"}, map[string]*bool{"webEnabled": &on}, []string{"web", "a: 2", "webEnabled", "true"}, "7", true},
		"content already applied": {[]string{"web", "a: 2"}, []string{"web", "a: 1"}, nil, []string{"web", "a: 2"}, "7", false},
		"section that a person has changed meanwhile": {[]string{"web", "{a: 2, b: 1}"}, []string{"web", "a: 1"}, nil, []string{"web", "{a: 2, b: 1}"}, "0", false},
		"section that a person has removed meanwhile": {[]string{"other", "b: 1"}, []string{"web", "a: 1"}, nil, []string{"other", "b: 1"}, "0", false},
		"other section that a person has changed":     {[]string{"web", "a: 1", "other", "b: 2"}, []string{"web", "a: 1", "other", "b: 1"}, nil, []string{"web", "a: 2", "other", "b: 2"}, "7", true},
		"changed flag":                             {[]string{"web", "a: 1", "webEnabled", "false"}, []string{"web", "a: 1", "webEnabled", "false"}, map[string]*bool{"webEnabled": &on}, []string{"web", "a: 2", "webEnabled", "true"}, "7", true},
		"flag that a person has set meanwhile":     {[]string{"web", "a: 1", "webEnabled", "false"}, []string{"web", "a: 1"}, map[string]*bool{"webEnabled": &on}, []string{"web", "a: 2", "webEnabled", "false"}, "0", true},
		"flag that a person has changed meanwhile": {[]string{"web", "a: 2", "webEnabled", "false"}, []string{"web", "a: 1", "webEnabled", "true"}, map[string]*bool{"webEnabled": nil}, []string{"web", "a: 2", "webEnabled", "false"}, "0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := valuesState(t)
			w, err := sections.PlanConfigWrite(scantest.Config(t, test.seen...), "web", ops, test.flags)
			if err != nil || w == nil {
				t.Fatalf("got %v, %v", w, err)
			}
			if test.before != nil {
				scantest.Update(t, s.DB, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, scantest.Config(t, test.before...), "7") })
			}
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				changed, err := s.ConfigMap.SaveWritten(tx, *w)
				if changed != test.changed {
					t.Errorf("changed %t, want %t", changed, test.changed)
				}
				return err
			})
			config, record := appliedOf(t, s.DB)
			if record.OnlyHooks != (test.before == nil) {
				t.Errorf("only hooks have written the ConfigMap: %t", record.OnlyHooks)
			}
			if want := scantest.Config(t, test.want...); !equalConfigs(config, want) || record.ResourceVersion != test.version {
				t.Errorf("got  %v at version %s\nwant %v at version %s", config, record.ResourceVersion, want, test.version)
			}
		})
	}
}

func TestAChangeOfAHookLeavesTheWritersOfTheConfigMap(t *testing.T) {
	t.Parallel()
	s, _ := valuesState(t)
	before := scantest.Config(t, "web", "a: 1")
	w, err := sections.PlanConfigWrite(before, "web", []values.Op{add("/web/a", "2")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for onlyHooks, save := range map[bool]func(*store.Tx, values.Config, string) error{false: s.ConfigMap.SaveApplied, true: s.ConfigMap.SaveOfHooks} {
		scantest.Update(t, s.DB, func(tx *store.Tx) error { return save(tx, before, "7") })
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			_, err := s.ConfigMap.SaveWritten(tx, *w)
			return err
		})
		if _, record := appliedOf(t, s.DB); record.OnlyHooks != onlyHooks || record.ResourceVersion != "7" {
			t.Errorf("got %+v, want %t", record, onlyHooks)
		}
	}
}

// equalConfigs compares contents. A nil map of flags is treated as equal to an empty one.
func equalConfigs(a, b values.Config) bool {
	if len(a.Flags) == 0 && len(b.Flags) == 0 {
		a.Flags, b.Flags = nil, nil
	}
	return cmp.Equal(a, b)
}

// A person changes the section that a hook is changing. The operator stops after the write of the hook, so the next
// start puts both changes in force before the task of the hook ends.
func TestTheEndOfAHookKeepsTheChangeOfAPersonThatWasReadWithIt(t *testing.T) {
	t.Parallel()
	s, _ := valuesState(t)
	w, err := sections.PlanConfigWrite(scantest.Config(t, "web", "size: 1"), "web", []values.Op{add("/web/p", "1")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	written, _, err := w.Text(map[string]string{"web": "size: 2"}, values.Layers{})
	if err != nil {
		t.Fatal(err)
	}
	want := scantest.Config(t, "web", "{size: 2, p: 1}")
	scantest.Update(t, s.DB, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", written), "3") })
	scantest.Update(t, s.DB, func(tx *store.Tx) error {
		_, err := s.ConfigMap.SaveWritten(tx, *w)
		return err
	})
	if config, record := appliedOf(t, s.DB); !equalConfigs(config, want) || record.ResourceVersion != "0" {
		t.Errorf("got  %v at version %s\nwant %v at an unknown version", config, record.ResourceVersion, want)
	}
}

func TestAnEffectThatIsNoChangeOfTheConfigMapIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := valuesState(t)
	for _, data := range []string{"", "{", `{"ops":1}`} {
		err := s.ConfigMap.Do(t.Context(), workflow.Task{}, json.RawMessage(data))
		// The engine does not export the type of this error. The error wraps the error of the JSON decoder.
		if err == nil || errors.Unwrap(err) == nil || err.Error() != errors.Unwrap(err).Error() {
			t.Errorf("%q: got %v", data, err)
		}
	}
}

func TestOnlyAnnouncedChangesOfTheConfigMapAreReverted(t *testing.T) {
	t.Parallel()
	before := scantest.Config(t, "web", "size: 1", "webEnabled", "false")
	on := true
	w, err := sections.PlanConfigWrite(before, "web", []values.Op{add("/web/size", "2")}, map[string]*bool{"webEnabled": &on})
	if err != nil {
		t.Fatal(err)
	}
	effect, err := desired.EffectOf(*w)
	if err != nil {
		t.Fatal(err)
	}
	other := workflow.Effect{Kind: "object", Data: json.RawMessage(`"no change of the ConfigMap"`)}
	damaged := workflow.Effect{Kind: desired.ConfigEffect, Data: json.RawMessage(`[]`)}
	for name, test := range map[string]struct {
		journals [][]workflow.Effect
		want     []string
		err      string
	}{
		"no journal":              {nil, []string{"web", "size: 2", "webEnabled", "true"}, ""},
		"other effect":            {[][]workflow.Effect{{other}}, []string{"web", "size: 2", "webEnabled", "true"}, ""},
		"one of several effects":  {[][]workflow.Effect{{other, effect}}, []string{"web", "size: 1", "webEnabled", "false"}, ""},
		"one of several journals": {[][]workflow.Effect{{other}, {effect}, {}}, []string{"web", "size: 1", "webEnabled", "false"}, ""},
		"damaged effect":          {[][]workflow.Effect{{damaged}}, nil, "cannot unmarshal array"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := valuesState(t)
			now := scantest.Config(t, "web", "size: 2", "webEnabled", "true")
			scantest.Update(t, s.DB, func(tx *store.Tx) (err error) {
				for i, effects := range test.journals {
					err = errors.Join(err, store.Save(tx, store.JournalKey(store.ID{Epoch: 1, N: uint64(i + 1)}), workflow.Outcome{Effects: effects}))
				}
				return err
			})
			err := s.DB.View(func(tx *store.Tx) error { return desired.LeaveAnnounced(tx, before, &now) })
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if want := scantest.Config(t, test.want...); err != nil || !equalConfigs(now, want) {
				t.Errorf("got %v, %v, want %v", now, err, want)
			}
		})
	}
}

func TestTheCommandThatEditsTheConfigMapNamesIt(t *testing.T) {
	t.Parallel()
	o, _, _ := scantest.Options(t)
	o.ConfigMap = (*kube.Client)(nil).ConfigMap("ops", "addon-operator") // a reference, which sends no request
	s := scan.New(o, nil)
	if got, want := s.ConfigMap.EditConfig(), "kubectl -n ops edit configmap addon-operator"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := s.ConfigMap.Name(), "ConfigMap ops/addon-operator"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
