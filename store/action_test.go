package store

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestActionsAreBoundedByNumberAndSizeAndSurviveDroppedWork(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostActions + 5 {
		if err := db.Update(func(tx *Tx) error {
			return AddAction(tx, Action{By: "mia", Verb: "reload", What: strconv.Itoa(i), Reason: strings.Repeat("ä", mostText)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.DropWork(t.Context(), LostSpan{How: "test"}); err != nil {
		t.Fatal(err)
	}
	var kept []string
	if err := db.View(func(tx *Tx) error {
		for a, err := range ActionsBackwards(tx) {
			if err != nil {
				return err
			}
			if len(a.Reason) > mostText+len("…") || !utf8.ValidString(a.Reason) || a.At.IsZero() {
				t.Fatalf("stored is %d bytes of reason, at %s", len(a.Reason), a.At)
			}
			kept = append(kept, a.What)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(kept) != mostActions || kept[0] != strconv.Itoa(mostActions+4) || kept[mostActions-1] != "5" {
		t.Errorf("%d actions are kept, from %s to %s", len(kept), kept[0], kept[len(kept)-1])
	}
}
