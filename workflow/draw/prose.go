package draw

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// verbatim matches the parts of a text that a page shows as code: variables, name patterns, paths
// of values, and commands with an option.
var verbatim = regexp.MustCompile(`[$*]\w+|(\w+ )*--\w+|\w+(?:[.-]\w+)*\.\w+`)

// prose returns text for a Markdown page: on one line, with the parts that verbatim matches as code,
// and with special characters escaped.
func prose(text string) string {
	text = flat(text)
	var b strings.Builder
	at := 0
	for _, span := range verbatim.FindAllStringIndex(text, -1) {
		b.WriteString(escapeMarkdown(text[at:span[0]]) + "`" + text[span[0]:span[1]] + "`")
		at = span[1]
	}
	return b.String() + escapeMarkdown(text[at:])
}

// sentence returns text, a description in a graph, as a sentence for a page.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if at := verbatim.FindStringIndex(text); at == nil || at[0] > 0 {
		first, size := utf8.DecodeRuneInString(text)
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	return prose(strings.TrimSuffix(text, ".")) + "."
}

// escapeMarkdown escapes the characters of s that have a meaning in Markdown.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	).Replace(s)
}
