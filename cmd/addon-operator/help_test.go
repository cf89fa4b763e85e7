package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelpIsWrappedBetweenWords prints the help of every command without a terminal. Each line of a description must
// have at most 80 columns, unless it is indented, and no word may be broken.
func TestHelpIsWrappedBetweenWords(t *testing.T) {
	t.Setenv("COLUMNS", "")
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(out.String(), "\nUsage:")
		for line := range strings.Lines(text) {
			if n := len([]rune(line)) - 1; n > 80 && !strings.HasPrefix(line, " ") {
				t.Errorf("%s: a line of the description has %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		if got, want := strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(cmd.Long), " "); cmd.Long != "" && got != want {
			t.Errorf("%s: the description is\n%s\nwant\n%s", cmd.CommandPath(), got, want)
		}
	}
	visit(newRoot())
}
