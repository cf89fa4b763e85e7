// Package redact tells names of secrets from other names, and quotes text that may hold secrets.
package redact

import (
	"regexp"
	"strings"
	"unicode"
)

// Mark stands in place of a secret.
const Mark = "(redacted)"

// A secret's name ends in a word that says so. Names of the place of a secret, such as secretName and tokenPath, do not.
var (
	secretName = regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|credentials?|api_?-?key|private_?-?key|access_?-?key|secret_?-?key|encryption_?-?key|auth|dockerconfig(json)?|dockercfg|htpasswd|\.key|_key|-key)s?$`)
	publicName = regexp.MustCompile(`(?i)(public_?-?key)s?$`)
	word       = regexp.MustCompile(`[\pL\pN_.-]+`)
)

// Secret reports whether a setting with this name holds a secret.
func Secret(name string) bool {
	return secretName.MatchString(name) && !publicName.MatchString(name)
}

const (
	quotedLines = 3
	quotedRunes = 120 // of each line
)

// Beginning returns the first lines of text in quotation marks, for an error about text that cannot be read. Behind the
// first name of a secret, it leaves out the rest.
func Beginning(text []byte) string {
	const enough = quotedLines * quotedRunes * 4 // bytes
	shown := strings.ToValidUTF8(string(text[:min(len(text), 4*enough)]), "?")
	cut := len(shown) < len(text)
	for _, at := range word.FindAllStringIndex(shown, -1) {
		if Secret(strings.TrimRight(shown[at[0]:at[1]], "._-")) {
			shown, cut = shown[:at[1]]+" "+Mark, false
			break
		}
	}
	var lines []string
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(strings.Map(printable, line))
		if line == "" {
			continue
		}
		if len(lines) == quotedLines {
			cut = true
			break
		}
		if runes := []rune(line); len(runes) > quotedRunes {
			line = string(runes[:quotedRunes]) + "…"
		}
		lines = append(lines, line)
	}
	if cut {
		lines = append(lines, "…")
	}
	return "“" + strings.Join(lines, "⏎ ") + "”"
}

// printable returns a blank for a character that a terminal would obey.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}
