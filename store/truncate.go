package store

import "strings"

// mostText is the maximum length in bytes of a short text, such as the reason for an action.
const mostText = 1 << 10

// ellipsis is the end of a text that was truncated.
const ellipsis = "…"

// truncated returns truncatedTo(mostText, text).
func truncated(text string) string { return truncatedTo(mostText, text) }

// truncatedTo returns text if it has no more bytes than the limit most. Otherwise truncatedTo
// returns the whole characters of text within this limit, followed by an ellipsis.
func truncatedTo(most int, text string) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + ellipsis
}
