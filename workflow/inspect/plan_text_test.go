package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"addon-operator/workflow/inspect"
)

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
