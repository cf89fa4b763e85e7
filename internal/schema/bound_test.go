package schema_test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"addon-operator/internal/schema"
)

// The validator of kube-openapi takes minutes or hours for each of these values, because its time
// grows with the square of the length.
func TestLongListsAndMapsAreCheckedInTimeThatGrowsAsTheyDo(t *testing.T) {
	t.Parallel()
	const n = 30_000
	numbers, twice, keys, maps := make([]any, n), make([]any, n), map[string]any{}, make([]any, n)
	for i := range n {
		numbers[i], twice[i] = int64(i), int64(i%(n-1))
		keys[fmt.Sprint("x", i)] = true
		maps[i] = map[string]any{"no": "such"}
	}
	for _, test := range []struct {
		name, schema string
		value        any
		want         string
	}{
		{"different elements", "{type: array, uniqueItems: true, items: {type: integer}}", numbers, ""},
		{"an element that comes twice", "{type: array, uniqueItems: true, items: {type: integer}}", twice, "mod.v shouldn't contain duplicates (uniqueItems)"},
		{"elements of another type", "{type: array, items: {type: string}}", numbers, "mod.v[0] must be of type string"},
		{"fields of another type", "{type: object, additionalProperties: {type: string}}", keys, "must be of type string"},
		{"fields by pattern", "{type: object, patternProperties: {^x: {type: boolean}}}", keys, ""},
		{"fields by pattern, of another type", "{type: object, patternProperties: {^x: {type: string}}}", keys, "must be of type string"},
		{"unknown keys", "{type: object}", keys, "is not known to the schema"},
		{"unknown keys of elements", "{type: array, items: {type: object}}", maps, "mod.v[0].no is not known to the schema"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			set, err := schema.Parse(schema.File{Path: "c", Text: []byte("type: object\nproperties: {v: " + test.schema + "}")}, schema.File{})
			if err != nil {
				t.Fatal(err)
			}
			var found schema.Violations
			if took := used(t, func() { found = set.Config.Check("mod", map[string]any{"v": test.value}, nil) }); took > 10*time.Second {
				t.Errorf("it used %v of a CPU", took)
			}
			switch err := found.Err(); {
			case test.want == "" && err != nil:
				t.Errorf("it is rejected: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
			if len(found) > 300 {
				t.Errorf("%d violations are listed one by one", len(found))
			}
		})
	}
}

// used returns the CPU time of the thread that runs fn. Other work of the machine does not change
// this time.
func used(t *testing.T, fn func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := thread()
	fn()
	return thread() - before
}

// TestMistakesBeyondThoseListedAreMistakes checks that the maximum number of reported errors does
// not change which values are valid. Each list of 1000 elements has more errors than this maximum,
// for at least one of the schemas that it is checked with.
func TestMistakesBeyondThoseListedAreMistakes(t *testing.T) {
	t.Parallel()
	set, err := schema.Parse(schema.File{Path: "c", Text: []byte(
		"type: object\nproperties: {v: {anyOf: [{type: array, items: {type: integer}}, {type: array, items: {type: string}}]}, w: {type: array, items: {type: integer}}}",
	)}, schema.File{})
	if err != nil {
		t.Fatal(err)
	}
	texts, mixed := make([]any, 1000), make([]any, 1000)
	for i := range texts {
		texts[i], mixed[i] = "x", int64(i)
	}
	mixed[999] = "x"
	if err := set.Config.Check("mod", map[string]any{"v": texts, "w": []any{int64(1)}}, nil).Err(); err != nil {
		t.Errorf("a list that fits the second of two schemas is rejected: %v", err)
	}
	if err := set.Config.Check("mod", map[string]any{"v": mixed}, nil).Err(); err == nil {
		t.Error("a list that fits neither is accepted")
	}
	if found := set.Config.Check("mod", map[string]any{"w": texts}, nil); len(found) != 101 || found[100].Rule != "more" {
		t.Errorf("of 1000 errors, %d are reported: %.300v", len(found), found)
	}
}
