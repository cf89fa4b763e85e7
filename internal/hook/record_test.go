package hook_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

func TestJSONLinesAreRecords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]hook.Record{
		`{"level":"warn","msg":"disk is full","time":"2026-01-02T03:04:05Z","pod":"a","n":12345678901234567890}`: {
			Level: "warn", Message: "disk is full", Time: "2026-01-02T03:04:05Z",
			Fields: map[string]any{"hook_pod": "a", "hook_n": json.Number("12345678901234567890"), "proxyJsonLog": true},
		},
		`  {}  `: {Fields: map[string]any{"proxyJsonLog": true}},
		`{"level":30,"msg":{"a":"<b>"},"time":17,"message":"m"}`: {
			Message: `{"a":"<b>"}`, Time: "17",
			Fields: map[string]any{"hook_level": json.Number("30"), "hook_message": "m", "proxyJsonLog": true},
		},
		`{"proxyJsonLog":false}`: {Fields: map[string]any{"hook_proxyJsonLog": false, "proxyJsonLog": true}},
	} {
		got, ok := hook.ParseRecord(line)
		if !ok {
			t.Errorf("%s is no record", line)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestOtherLinesAreText(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "text", "{", `{"a":1`, `{"a":1} {"b":2}`, `[{"a":1}]`, `"a"`, "1", "null", "{a: 1}", `{"a":1}x`, "\f{}"} {
		if record, ok := hook.ParseRecord(line); ok {
			t.Errorf("%q is read as %+v", line, record)
		}
	}
}

// FuzzParseRecord checks that ParseRecord never panics, and returns a record only for a line that is a JSON object.
func FuzzParseRecord(f *testing.F) {
	for _, seed := range []string{`{"level":"info","msg":"x"}`, `{"a":[1,{"b":null}]}`, `{"a":1}}`, "{}", `{"a":1e999}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		record, ok := hook.ParseRecord(line)
		var object map[string]json.RawMessage // raw values, because a number can be too large for a float64
		if isObject := json.Unmarshal([]byte(line), &object) == nil && object != nil; ok != isObject {
			t.Errorf("%q: record %t, JSON object %t", line, ok, isObject)
		}
		if _, err := json.Marshal(record.Fields); err != nil {
			t.Errorf("fields of %q: %v", line, err)
		}
	})
}
