package sections

import (
	"encoding/json"
	"testing"

	"addon-operator/internal/values"
)

func TestHookWriteThatMetAnotherChangeIsPatchedOnIt(t *testing.T) {
	before := values.Config{Sections: values.Values{"web": map[string]any{"a": int64(1)}}}
	w, err := PlanConfigWrite(before, "web", []values.Op{{Op: "add", Path: "/web/b", Value: json.RawMessage("2")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, live, want string }{
		{"as it was", "a: 1\n", "a: 1\nb: 2\n"},
		{"written already", "a: 1\nb: 2\n", ""},
		{"changed by a person", "a: 5\nc: 3\n", "a: 5\nb: 2\nc: 3\n"},
	} {
		text, changed, err := w.Text(map[string]string{"web": c.live}, values.Layers{})
		if err != nil || changed != (c.want != "") || text != c.want {
			t.Errorf("%s: %q, %t, %v; want %q", c.name, text, changed, err, c.want)
		}
	}
}
