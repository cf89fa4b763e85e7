package hook_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	internaltree "addon-operator/internal/tree"
)

func TestErrorOfAnOutputFileQuotesItsBeginningOnlyIfItIsNoJSON(t *testing.T) {
	t.Parallel()
	text := []byte("a: b: c\n")
	_, notation := internaltree.Documents(text)
	if !errors.As(notation, new(*internaltree.NotationError)) {
		t.Fatalf("error of the text: %v", notation)
	}
	err := hook.FileError("$METRICS_PATH", text, notation)
	if want := "$METRICS_PATH: " + notation.Error() + "; the file begins with "; !strings.HasPrefix(err.Error(), want) || len(err.Error()) == len(want) || !errors.Is(err, notation) {
		t.Errorf("got %q, want it to begin with %q", err, want)
	}
	content := errors.New("document 1: name: is required")
	err = hook.FileError("$METRICS_PATH", []byte("{}"), content)
	if err.Error() != "$METRICS_PATH: document 1: name: is required" || !errors.Is(err, content) {
		t.Errorf("got %q", err)
	}
}

func TestAFileWithoutTheExecuteBitIsProbablyAHookIfItIsAProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for name, c := range map[string]struct {
		text    string
		program bool
	}{
		"script.sh": {"#!/bin/bash\n", true}, "short": {"#!", true}, "binary": {"\x7fELF\x02", true}, "functions.sh": {"f() { true; }\n", false},
		"comment.sh": {"# a library\n", false}, "one-byte": {"#", false}, "empty": {"", false}, "cut": {"\x7fEL", false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "hooks", name), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		want[name] = c.program
	}
	hooks, skipped, err := hook.Find(hook.Module, dir)
	if err != nil || len(hooks) != 0 {
		t.Fatalf("hooks %v, %v", hooks, err)
	}
	got := map[string]bool{}
	for _, s := range skipped {
		got[filepath.Base(s.Path)] = s.MissingBit
		if s.Reason != "is not executable; chmod +x if it is a hook" {
			t.Errorf("%s %s", s.Path, s.Reason)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConvertedObjectsAreComparedWithTheirOriginalsInOrder(t *testing.T) {
	t.Parallel()
	object := func(version, name string) string {
		return `{"apiVersion":"x.io/` + version + `","kind":"C","metadata":{"name":"` + name + `"}}`
	}
	request := []json.RawMessage{json.RawMessage(object("v1", "a")), json.RawMessage(object("v1", "b"))}
	a, b := object("v2", "a"), object("v2", "b")
	got, err := hook.ParseConverted([]byte(`{"convertedObjects":[`+a+`,`+b+`]}`), request, "x.io/v2")
	if diff := cmp.Diff(hook.Converted{Objects: []json.RawMessage{json.RawMessage(a), json.RawMessage(b)}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = hook.ParseConverted([]byte(`{"convertedObjects":[`+b+`,`+a+`]}`), request, "x.io/v2")
	if err == nil || err.Error() != `convertedObjects[0]: metadata.name is "b", must be "a"` {
		t.Errorf("exchanged objects: %v", err)
	}
	failed, err := hook.ParseConverted([]byte(`{"failedMessage":"no","convertedObjects":[`+a+`]}`), request, "x.io/v2")
	if diff := cmp.Diff(hook.Converted{Failed: "no"}, failed); diff != "" || err != nil {
		t.Errorf("a failure with some of the objects: %v (-want +got):\n%s", err, diff)
	}
	if _, err := hook.ParseConverted(nil, request, "x.io/v2"); !errors.Is(err, hook.ErrNoResponse) {
		t.Errorf("no response: %v", err)
	}
}
