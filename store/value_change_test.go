package store

import (
	"strings"
	"testing"
)

func TestChangesOfValuesAreBounded(t *testing.T) {
	t.Parallel()
	var c ValueChanges
	for range mostValueChanges + 5 {
		c.Add(ValueChange{Path: "/web/a", Old: strings.Repeat("ä", 1000), New: "1"})
	}
	if len(c.List) != mostValueChanges || c.More != 5 {
		t.Errorf("%d changes, and %d more", len(c.List), c.More)
	}
	if old := c.List[0].Old; len(old) > mostChangedText+len("…") || !strings.HasSuffix(old, "ä…") || c.List[0].New != "1" {
		t.Errorf("a long value became %q", old)
	}
}
