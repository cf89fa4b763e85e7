package inspect

import "strings"

// command returns a command line of this program, with quoted arguments.
func (l Layout) command(args ...string) string {
	words := []string{l.Program}
	for _, arg := range args {
		words = append(words, Quoted(arg))
	}
	return strings.TrimSpace(strings.Join(words, " ") + l.More)
}

// Quoted returns text as one word for a shell, in quotes if it needs them.
func Quoted(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
