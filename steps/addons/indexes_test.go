package addons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"addon-operator/internal/catalog/source"
)

func TestIndexOfManyConfigurationsIsParsedOnce(t *testing.T) {
	parsed := newIndexes(make(chan struct{}, 1))
	small, large := index("small", 1), index("large", largestIndex/20)
	for _, c := range []struct {
		name  string
		index source.Document
		kept  bool
	}{
		{"small index", small, true},
		{"large index, which is not kept", large, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, err := parsed.parse(t.Context(), c.index)
			if err != nil {
				t.Fatal(err)
			}
			second, err := parsed.parse(t.Context(), c.index)
			if err != nil {
				t.Fatal(err)
			}
			if len(first) == 0 || len(first) != len(second) {
				t.Fatalf("entries: %d, then %d", len(first), len(second))
			}
			if again := &first[0] != &second[0]; again == c.kept {
				t.Errorf("parsed again: %v", again)
			}
		})
	}
}

func TestIndexWithAnErrorIsReportedToEachConfiguration(t *testing.T) {
	parsed := newIndexes(make(chan struct{}, 1))
	broken := source.Document{Data: []byte("entries: []"), Validators: source.Validators{Digest: "broken"}}
	for range 2 {
		if _, err := parsed.parse(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "entries of the index must be a map") {
			t.Errorf("error: %v", err)
		}
	}
}

func TestParsingAnIndexEndsWithItsContext(t *testing.T) {
	turns := make(chan struct{}, 1)
	turns <- struct{}{}
	changed, cancel := context.WithCancelCause(t.Context())
	cancel(errChanged)
	if _, err := newIndexes(turns).parse(changed, index("waits", 1)); !errors.Is(err, errChanged) {
		t.Errorf("error: %v", err)
	}
}

// index returns the text of an index with n addons.
func index(digest string, addons int) source.Document {
	text := []byte("entries:\n")
	for i := range addons {
		text = fmt.Appendf(text, "  addon-%d: [{version: 1.0.0}]\n", i)
	}
	return source.Document{Data: text, Validators: source.Validators{Digest: digest}}
}
