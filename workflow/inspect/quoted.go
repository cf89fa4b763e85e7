package inspect

import "strings"

// command returns a command of this program as a person types it. args follow the program's name.
func (l Layout) command(args ...string) string {
	words := []string{l.Program}
	for _, arg := range args {
		words = append(words, Quoted(arg))
	}
	return strings.TrimSpace(strings.Join(words, " ") + l.More)
}

// Quoted quotes text as one word for a shell.
func Quoted(text string) string {
	if !strings.ContainsAny(text, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
