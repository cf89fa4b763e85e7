// Package text writes numbers in sentences.
package text

import "strconv"

// Count returns a number with the noun for it: "1 entry", "2 entries".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
