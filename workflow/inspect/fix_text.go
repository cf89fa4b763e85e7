package inspect

import (
	"regexp"
	"strings"
)

// commandBegins matches the first word of a command in the text of a fix. commandEnds matches the text
// that follows a command.
var (
	commandBegins = regexp.MustCompile(`(^|[ (])(kubectl|chmod|addon-operator) `)
	commandEnds   = regexp.MustCompile(`[.,;:)]( |$)|\.$| (says|has|names|and|or|in|on) |[)]|$`)
)

// tie is the character that replaces the blanks in a command while a text is wrapped. No fix contains this character.
const tie = "␣"

// wrapFix breaks the text of a fix into lines of at most width columns. wrapFix does not break commands, so that they
// can be copied. A command longer than width has a line of its own, which the terminal breaks. If a command ends a
// sentence, wrapFix removes the full stop and starts a new line.
func wrapFix(text string, width int) (lines []string) {
	text = tieCommands(flat(text))
	at := ""
	for word := range strings.FieldsSeq(text) {
		command, ends := strings.CutSuffix(word, ".")
		if ends = ends && strings.Contains(command, tie); ends {
			word = command
		}
		if at != "" && columns(at)+1+columns(word) > width {
			lines, at = append(lines, at), ""
		}
		if columns(word) > width && !strings.Contains(word, tie) {
			cut := wrap(word, width)
			lines, word = append(lines, cut[:len(cut)-1]...), cut[len(cut)-1]
		}
		at = strings.TrimSpace(at + " " + word)
		if ends {
			lines, at = append(lines, at), ""
		}
	}
	if at != "" {
		lines = append(lines, at)
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], tie, " ")
	}
	return lines
}

// tieCommands replaces the blanks in each command in text with tie.
func tieCommands(text string) string {
	var out strings.Builder
	for {
		at := commandBegins.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			return out.String()
		}
		begin, rest := at[4], at[1]
		end := rest + commandEnds.FindStringIndex(text[rest:])[0]
		out.WriteString(text[:begin] + strings.ReplaceAll(text[begin:end], " ", tie))
		text = text[end:]
	}
}
