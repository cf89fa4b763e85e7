package main

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"addon-operator/workflow/inspect"
)

// paint is the flags that say how text looks.
type paint struct {
	noColor, ascii bool
}

func (p *paint) declare(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.noColor, "no-color", false, "no colours, as they are never needed to read it [$NO_COLOR]")
	cmd.Flags().BoolVar(&p.ascii, "ascii", false, "no characters beyond ASCII")
}

// look returns how text on w looks: as wide as the terminal, with colours if it
// shows them.
func (p *paint) look(w io.Writer) inspect.Look {
	l := inspect.Look{ASCII: p.ascii}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		l.Width = columns
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return l
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		l.Width = width
	}
	l.Colour = !p.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return l
}

// again returns the flags with which a command asks the same source.
func (f *sourceFlags) again() string {
	switch {
	case f.store != "":
		return " --store " + quoted(f.store)
	case f.socket != "":
		return " --debug-unix-socket " + quoted(f.socket)
	default:
		return ""
	}
}

// quoted returns text as a shell takes it for one word.
func quoted(text string) string {
	if !strings.ContainsAny(text, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// inPlace returns text with the codes that have a terminal draw it from the top
// left over what was there, without a flicker.
func inPlace(text string) string {
	return "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
}
