package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAMessageOfAnEventIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"short":                        "short",
		strings.Repeat("x", 1024):      strings.Repeat("x", 1024),
		strings.Repeat("x", 1025):      strings.Repeat("x", 1021) + "...",
		strings.Repeat("ü", 600):       strings.Repeat("ü", 510) + "...",
		strings.Repeat("→", 400):       strings.Repeat("→", 340) + "...",
		"x" + strings.Repeat("→", 400): "x" + strings.Repeat("→", 340) + "...",
	} {
		got := eventMessage(text)
		if got != want || len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("a message of %d bytes has %d bytes, want %d, and is valid: %t", len(text), len(got), len(want), utf8.ValidString(got))
		}
	}
}
