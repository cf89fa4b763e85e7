package inspect

import "strings"

// Quoted quotes text as one word for a shell.
func Quoted(text string) string {
	if !strings.ContainsAny(text, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
