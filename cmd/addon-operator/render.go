package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"addon-operator/workflow/inspect"
)

// paint has the values of the flags for the appearance of text.
type paint struct {
	noColor, ascii bool
}

func (p *paint) declare(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.noColor, "no-color", false, "print no colors [$NO_COLOR]")
	cmd.Flags().BoolVar(&p.ascii, "ascii", false, "print ASCII characters only")
}

// layout returns the layout of text on w. On a terminal, text has the width of the terminal, and colors unless
// --no-color, the variable NO_COLOR or TERM=dumb disables them. If w is not a terminal, nothing is truncated, and lines
// are wrapped only if the variable COLUMNS is set.
func (p *paint) layout(w io.Writer, zone *time.Location) inspect.Layout {
	l := inspect.Layout{ASCII: p.ascii, Zone: zone}
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err == nil {
		l.Width = columns
	}
	f, ok := terminal(w)
	if !ok {
		if l.Whole = true; err != nil {
			l.Width = inspect.Unlimited
		}
		return l
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		l.Width = width
	}
	l.Colour = !p.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return l
}

// terminal returns w as a file, and reports whether w is a terminal.
func terminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

func isTerminal(w io.Writer) bool {
	_, ok := terminal(w)
	return ok
}

// repeated returns the flags that select the same source again, for commands that a text
// recommends.
func (f *sourceFlags) repeated() string {
	switch {
	case f.store != "":
		return " --store " + inspect.Quoted(f.store)
	case f.socket != "":
		return " --debug-unix-socket " + inspect.Quoted(f.socket)
	default:
		return ""
	}
}

// inPlace adds control codes to text. With them, a terminal draws the text over the previous text
// without flicker.
func inPlace(text string) string {
	return "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
}
