package store

import "strings"

// mostText is the maximum length in bytes of a short text, such as the reason for an action.
const mostText = 1 << 10

// truncated returns text, cut to mostText, as valid UTF-8.
func truncated(text string) string { return truncatedTo(mostText, text) }

// truncatedTo returns at most that many bytes of text, as valid UTF-8. If it cuts text, it appends
// an ellipsis.
func truncatedTo(most int, text string) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
