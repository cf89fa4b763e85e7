package store

import (
	"strings"
	"testing"
)

func TestChangesOfValuesAreBounded(t *testing.T) {
	t.Parallel()
	var c ValueChanges
	for range mostValueChanges + 5 {
		c.Add(ValueChange{Path: "/web/a", Old: "2", New: "1"})
	}
	if len(c.List) != mostValueChanges || c.More != 5 {
		t.Errorf("%d changes, and %d more", len(c.List), c.More)
	}
}

func TestATextThatDoesNotShowTheWholeValueEndsWithAHash(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", mostChangedText)
	for name, test := range map[string]struct{ shown, hash, want string }{
		"a short value":            {"1", "1234abcd", "1"},
		"a long value":             {long, "1234abcd", long[:mostChangedText] + "… (hash 1234abcd)"},
		"a long value without key": {long, "", long[:mostChangedText] + "…"},
		"a masked value":           {`"http://a:(redacted)@b"`, "1234abcd", `"http://a:(redacted)@b" (hash 1234abcd)`},
		"a masked value with hash": {`"(redacted 00000000)"`, "1234abcd", `"(redacted 00000000)"`},
	} {
		if got := ValueText(test.shown, test.hash); got != test.want {
			t.Errorf("%s became %q, want %q", name, got, test.want)
		}
	}
}

func TestEqualTextsAreEqualValuesOnlyIfTheyShowTheWholeValueOrItsHash(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		old, now string
		want     bool
	}{
		"a value":                       {"1", "1", true},
		"other values":                  {"1", "2", false},
		"no value":                      {"", "", true},
		"a truncated value":             {`"xx…`, `"xx…`, false},
		"a truncated value with a hash": {`"xx… (hash 1234abcd)`, `"xx… (hash 1234abcd)`, true},
		"other hashes":                  {`"xx… (hash 1234abcd)`, `"xx… (hash 00000000)`, false},
		"a masked value":                {`"http://a:(redacted)@b"`, `"http://a:(redacted)@b"`, false},
		"a masked value with a hash":    {`"http://a:(redacted)@b" (hash 1234abcd)`, `"http://a:(redacted)@b" (hash 1234abcd)`, true},
		"a secret":                      {`"(redacted 1234abcd)"`, `"(redacted 1234abcd)"`, true},
	} {
		if got := (ValueChange{Path: "/web/a", Old: test.old, New: test.now}).Unchanged(); got != test.want {
			t.Errorf("%s: unchanged is %t", name, got)
		}
	}
}
