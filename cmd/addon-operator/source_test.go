package main

import "testing"

func TestCommandsToTypeNameTheSourceAndSurviveAShell(t *testing.T) {
	for want, from := range map[string]sourceFlags{
		"":                                   {},
		" --store '/tmp/my store.db'":        {store: "/tmp/my store.db"},
		" --debug-unix-socket /run/x":        {socket: "/run/x"},
		` --store '/tmp/it'\''s; rm -rf db'`: {store: "/tmp/it's; rm -rf db"},
	} {
		if got := from.repeated(); got != want {
			t.Errorf("the flags are %q, want %q", got, want)
		}
	}
}
