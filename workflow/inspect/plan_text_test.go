package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/workflow/inspect"
)

func TestPlanSaysWhatAConvergeWouldDoAndWhy(t *testing.T) {
	t.Parallel()
	plan := &inspect.Plan{
		Basis:    "made from the store of the running operator",
		Problems: []string{"the deletion of 3 modules is blocked"},
		Limits:   []string{"the enabled scripts were not run"},
		Values:   []inspect.FieldChange{{Path: "/global/domain", Old: "a.example.com", New: "b.example.com"}},
		Hooks:    []inspect.PlanHook{{Name: "hooks/a.sh", Binding: "beforeAll"}, {Name: "hooks/b.sh", Binding: "beforeAll"}, {Name: "hooks/a.sh", Binding: "afterAll"}},
		Modules: []inspect.PlanModule{
			{
				Name: "web", Action: inspect.PlanOn, Why: "enabled by ConfigMap key webEnabled", Release: "it is not installed", Revision: 1,
				CRDs:      []inspect.PlanObject{{Kind: "CustomResourceDefinition", Name: "sites.example.com", Action: inspect.ObjectCreated}},
				Objects:   []inspect.PlanObject{{Kind: "Site", Namespace: "shop", Name: "web", Action: inspect.ObjectCreated, Note: "its CRD is not installed yet"}},
				Hooks:     []inspect.PlanHook{{Name: "hooks/class.sh", Binding: "beforeHelm"}},
				HelmHooks: []inspect.PlanObject{{Kind: "Job", Namespace: "shop", Name: "migrate"}},
			},
			{
				Name: "db", Action: inspect.PlanRun, Release: "the manifest changed", Revision: 8, Values: []inspect.FieldChange{{Path: "/db/size", New: 2}},
				Objects: []inspect.PlanObject{
					{Kind: "StatefulSet", Namespace: "shop", Name: "db", Action: inspect.ObjectChanged, Fields: []inspect.FieldChange{{Path: "spec.replicas", Old: 1, New: 2}}},
					{Kind: "Secret", Namespace: "shop", Name: "tls", Action: inspect.ObjectHandedOver, From: "web"},
				},
			},
			{Name: "mail", Action: inspect.PlanOff, Objects: []inspect.PlanObject{{Kind: "Service", Namespace: "shop", Name: "mail", Action: inspect.ObjectDeleted}}},
			{Name: "old", Action: inspect.PlanPurge},
			{Name: "shop", Action: inspect.PlanRun, Error: "template: no value for domain"},
			{Name: "dns", Action: inspect.PlanRun},
			{Name: "log", Action: inspect.PlanRun},
			{Name: "never", Action: inspect.PlanNone},
			{Name: "broken", Action: inspect.PlanNone, Error: "values.yaml: line 3"},
		},
	}
	plan.Count()
	if !plan.Changes || !plan.Failed() || plan.Counts != (inspect.PlanCounts{On: 1, Off: 1, Purged: 1, Upgraded: 2, Created: 2, Changed: 1, Deleted: 1, HandedOver: 1}) {
		t.Errorf("the plan changes something: %t, fails: %t, with %+v", plan.Changes, plan.Failed(), plan.Counts)
	}
	want := `Plan: 1 module on, 1 off, 1 purged; objects: 2 created, 1 changed, 1 deleted, 1 handed over
made from the store of the running operator
✖ the deletion of 3 modules is blocked
• the enabled scripts were not run

global values
  /global/domain: a.example.com → b.example.com

module web is switched on
  why: enabled by ConfigMap key webEnabled
  release: revision 1: it is not installed
  + CustomResourceDefinition sites.example.com created
  + Site shop/web created
      not checked by the API server: its CRD is not installed yet

module db is run
  release: revision 8: the manifest changed
  values
    /db/size: none → 2
  ~ StatefulSet shop/db changed
      spec.replicas: 1 → 2
  > Secret shop/tls handed over, from release web

module mail is switched off
  - Service shop/mail deleted

release old is purged

module shop is run
  would fail: template: no value for domain

module broken is not run
  would fail: values.yaml: line 3

unchanged: dns, log

Hooks that would run. The plan did not run them; it uses the values that their last runs patched.
  MODULE    HOOKS
  (global)  beforeAll hooks/a.sh, hooks/b.sh; afterAll hooks/a.sh
  web       beforeHelm hooks/class.sh; Helm hook Job shop/migrate
`
	if diff := cmp.Diff(want, inspect.PlanText(plan, inspect.Layout{Width: 100})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHeadOfAPlanSaysWhetherAnythingWouldChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		modules []inspect.PlanModule
		values  []inspect.FieldChange
		changes bool
		head    string
	}{
		"no module":                {head: "Plan: nothing would change"},
		"a module that only runs":  {modules: []inspect.PlanModule{{Name: "web", Action: inspect.PlanRun}}, head: "Plan: nothing would change"},
		"a module that would fail": {modules: []inspect.PlanModule{{Name: "web", Action: inspect.PlanRun, Error: "no chart"}}, head: "Plan: incomplete, because modules would fail"},
		"values of a module": {
			modules: []inspect.PlanModule{{Name: "web", Action: inspect.PlanRun, Values: []inspect.FieldChange{{Path: "/web/a", New: 1}}}}, changes: true,
			head: "Plan: only values would change",
		},
		"global values": {
			values: []inspect.FieldChange{{Path: "/global/a", New: 1}}, changes: true,
			head: "Plan: only values would change",
		},
		"a definition": {
			modules: []inspect.PlanModule{{Name: "web", Action: inspect.PlanRun, CRDs: []inspect.PlanObject{{Kind: "CustomResourceDefinition", Action: inspect.ObjectChanged}}}}, changes: true,
			head: "Plan: 0 modules on, 0 off, 0 purged; objects: 0 created, 1 changed, 0 deleted",
		},
		"an upgrade without another object": {
			modules: []inspect.PlanModule{{Name: "web", Action: inspect.PlanRun, Revision: 2}}, changes: true,
			head: "Plan: 1 release would be upgraded, and no object would change",
		},
	} {
		plan := &inspect.Plan{Values: c.values, Modules: c.modules}
		plan.Count()
		head, _, _ := strings.Cut(inspect.PlanText(plan, inspect.Layout{}), "\n")
		if plan.Changes != c.changes || head != c.head {
			t.Errorf("%s: changes are %t, want %t; the head is %q, want %q", name, plan.Changes, c.changes, head, c.head)
		}
	}
}

func TestFieldsOfAPlanShowTheDifference(t *testing.T) {
	t.Parallel()
	var list, lines string
	for i := range 20 {
		list += fmt.Sprintf("key%d: old\n", i)
		lines += fmt.Sprintf("key%d: new\n", i)
	}
	var many []inspect.FieldChange
	for i := range 15 {
		many = append(many, inspect.FieldChange{Path: fmt.Sprintf("spec.f%02d", i), Old: i, New: i + 1})
	}
	long := strings.Repeat("long ", 40)
	for name, c := range map[string]struct {
		fields []inspect.FieldChange
		layout inspect.Layout
		want   []string
		lacks  string
	}{
		"a new field":                     {[]inspect.FieldChange{{Path: "a", New: "x"}}, inspect.Layout{}, []string{"a: none → x"}, ""},
		"a removed field":                 {[]inspect.FieldChange{{Path: "a", Old: false}}, inspect.Layout{}, []string{"a: false → none"}, ""},
		"texts that can be misread":       {[]inspect.FieldChange{{Path: "a", Old: "none", New: ""}}, inspect.Layout{}, []string{`a: "none" → ""`}, ""},
		"a text with blanks":              {[]inspect.FieldChange{{Path: "a", Old: "x y", New: `x"`}}, inspect.Layout{}, []string{`a: "x y" → "x\""`}, ""},
		"another type":                    {[]inspect.FieldChange{{Path: "a", Old: "true", New: true}}, inspect.Layout{}, []string{`a: "true" → true`}, ""},
		"lists and maps":                  {[]inspect.FieldChange{{Path: "a", Old: []any{1}, New: map[string]any{"b": 2}}}, inspect.Layout{}, []string{`a: [1] → {"b":2}`}, ""},
		"ASCII":                           {[]inspect.FieldChange{{Path: "a", Old: 1, New: 2}}, inspect.Layout{ASCII: true}, []string{"a: 1 -> 2"}, "→"},
		"lines of a text":                 {[]inspect.FieldChange{{Path: "data.conf", Old: "a: 1\nb: 2\n", New: "a: 1\nb: 3\n"}}, inspect.Layout{}, []string{"data.conf:\n", "\n        -b: 2\n        +b: 3\n"}, "a: 1"},
		"many lines":                      {[]inspect.FieldChange{{Path: "data.conf", Old: list, New: lines}}, inspect.Layout{}, []string{"-key0: old\n", "… and more lines; -o wide shows all\n"}, "+key0"},
		"many lines, wide":                {[]inspect.FieldChange{{Path: "data.conf", Old: list, New: lines}}, inspect.Layout{Wide: true}, []string{"-key19: old\n", "+key19: new\n"}, "more lines"},
		"a long line":                     {[]inspect.FieldChange{{Path: "data.conf", Old: "a\n", New: long + "end\n"}}, inspect.Layout{}, []string{"+long long", "…\n"}, "end"},
		"a long line, wide":               {[]inspect.FieldChange{{Path: "data.conf", Old: "a\n", New: long + "end\n"}}, inspect.Layout{Wide: true}, []string{"+long long", "long end\n"}, "…"},
		"lines with escape sequences":     {[]inspect.FieldChange{{Path: "data.conf", Old: "a\n", New: "\x1b[2Jb\x07\n"}}, inspect.Layout{}, []string{"-a\n", "+b\n"}, "\x1b"},
		"a value with control characters": {[]inspect.FieldChange{{Path: "a", Old: "x", New: "\x1b[31my\x07"}}, inspect.Layout{}, []string{"a: x → "}, "\x07"},
		"many fields":                     {many, inspect.Layout{}, []string{"spec.f11: 11 → 12\n", "… and 3 fields; -o wide shows all\n"}, "spec.f12"},
		"one field too many, in ASCII":    {many[:13], inspect.Layout{ASCII: true}, []string{"... and 1 field; -o wide shows all\n"}, "spec.f12"},
		"as many fields as are shown":     {many[:12], inspect.Layout{}, []string{"spec.f11: 11 → 12\n"}, "shows all"},
		"many fields, wide":               {many, inspect.Layout{Wide: true}, []string{"spec.f14: 14 → 15\n"}, "shows all"},
	} {
		object := inspect.PlanObject{Kind: "ConfigMap", Name: "conf", Action: inspect.ObjectChanged, Fields: c.fields}
		text := inspect.PlanText(&inspect.Plan{Changes: true, Modules: []inspect.PlanModule{{Name: "web", Action: inspect.PlanRun, Objects: []inspect.PlanObject{object}}}}, c.layout)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the plan lacks %q:\n%s", name, want, text)
			}
		}
		if c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("%s: the plan has %q:\n%s", name, c.lacks, text)
		}
	}
}
