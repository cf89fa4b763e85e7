package values_test

import (
	"encoding/json"
	"fmt"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"addon-operator/internal/values"
)

// savedPatches returns a section of about 40 KiB and 30 operations of hooks on it.
func savedPatches() (values.Values, []values.Saved) {
	section := map[string]any{}
	for i := range 300 {
		section[fmt.Sprint("object", i)] = map[string]any{
			"name": fmt.Sprint("object-", i), "ports": []any{"http", "https"}, "replicas": int64(i),
			"description": "a text of ordinary length, as values have many",
		}
	}
	saved := make([]values.Saved, 30)
	for i := range saved {
		saved[i].Op = values.Op{Op: "add", Path: fmt.Sprintf("/global/object%d/ready", i), Value: json.RawMessage(`true`)}
	}
	return values.Values{values.Global: section}, saved
}

func BenchmarkReplay(b *testing.B) {
	base, saved := savedPatches()
	for b.Loop() {
		values.Replay(base, saved)
	}
}

// BenchmarkReplayByLibrary measures an implementation of Replay with evanphx/json-patch. In that implementation each
// operation is a separate patch, because operations that cannot be applied must be skipped.
func BenchmarkReplayByLibrary(b *testing.B) {
	base, saved := savedPatches()
	for b.Loop() {
		text, err := json.Marshal(base)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range saved {
			one, err := json.Marshal([]values.Op{s.Op})
			if err != nil {
				b.Fatal(err)
			}
			patch, err := jsonpatch.DecodePatch(one)
			if err != nil {
				b.Fatal(err)
			}
			if patched, err := patch.Apply(text); err == nil {
				text = patched
			}
		}
		var replayed values.Values
		if err := json.Unmarshal(text, &replayed); err != nil {
			b.Fatal(err)
		}
	}
}
