package store

import (
	"regexp"
	"strings"
)

// A ValueChange is a change of a value of a module, or of a global value. Marks such as "(redacted HASH)" replace
// secrets. Without a [RedactionSecret], a mark has no hash.
type ValueChange struct {
	// Path is the JSON pointer of the value. Path begins with the key of the section.
	Path string `json:"path"`
	// Old and New are the values as [ValueText] returns them. Old is empty if the value was added, and
	// New is empty if the value was removed.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Unchanged reports whether the old and the new value are certainly equal. If the texts are equal, but show only parts
// of the values and have no hashes, Unchanged returns false.
func (c ValueChange) Unchanged() bool {
	return c.Old == c.New && (showsWhole(c.Old) || hashed.MatchString(c.Old))
}

// ValueChanges are the changes of values by an attempt.
type ValueChanges struct {
	// List has the first changes in the order of their paths. More is the number of changes that
	// are not in List.
	List []ValueChange `json:"list"`
	More int           `json:"more,omitempty"`
}

// Limits of the stored changes of an attempt.
const (
	mostValueChanges = 20
	mostChangedText  = 200 // bytes of each value, without its hash
)

// Add adds a change to List or, if List is full, increments More.
func (c *ValueChanges) Add(change ValueChange) {
	if len(c.List) == mostValueChanges {
		c.More++
		return
	}
	c.List = append(c.List, change)
}

// ValueText returns the text of a value in a [ValueChange]. The argument shown is the value as JSON,
// without its secrets. ValueText truncates a long text. If the result does not show the whole value,
// it ends with hash, a keyed hash of the value, so that different values have different texts. The
// argument hash is empty if there is no key.
func ValueText(shown, hash string) string {
	text := truncatedTo(mostChangedText, shown)
	if hash == "" || showsWhole(text) {
		return text
	}
	return text + " (hash " + hash + ")"
}

// hashed matches a text that ends with the hash of its value.
var hashed = regexp.MustCompile(` \(hash [0-9a-f]+\)$`)

// showsWhole reports whether a text without a hash at its end shows a whole value. It returns false if the text is
// truncated, or if it contains a mark without a hash in place of a secret.
func showsWhole(text string) bool {
	return !strings.HasSuffix(text, ellipsis) && !strings.Contains(text, "(redacted)")
}
