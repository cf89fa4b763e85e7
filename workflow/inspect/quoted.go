package inspect

import "strings"

// command returns a command of this program as a person types it. args follow the program's name.
func (l Layout) command(args ...string) string {
	text := l.Program
	for _, arg := range args {
		text += " " + Quoted(arg)
	}
	return strings.TrimSpace(text + l.More)
}

// Quoted quotes text as one word for a shell.
func Quoted(text string) string {
	if !strings.ContainsAny(text, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
