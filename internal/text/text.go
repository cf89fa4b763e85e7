// Package text formats numbers with their nouns for messages.
package text

import "strconv"

// Count returns n with its noun in the singular or the plural: "1 entry", "2 entries".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
