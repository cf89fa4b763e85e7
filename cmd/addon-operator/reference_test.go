package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test . -run Reference -update

var update = flag.Bool("update", false, "write the reference pages that are made from the code")

// TestReferencePagesSayWhatTheProgramTakes compares the pages of commands and of
// settings with what they are made from.
func TestReferencePagesSayWhatTheProgramTakes(t *testing.T) {
	for name, want := range map[string]string{"cli.md": cliPage(), "settings.md": settingsPage()} {
		path := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a page of documentation
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("%s is not what go test ./cmd/addon-operator -run Reference -update writes (-want +got):\n%s", path, d)
		}
	}
}

const cliIntro = `# Commands

<!-- Made from the code by go test ./cmd/addon-operator -run Reference -update. -->

All commands but ` + "`start`, `version` and `workflow graph`" + ` ask the running operator over its debug socket, or, with
` + "`--store FILE`" + `, a store that no operator has open; they say on stderr which. The socket serves HTTP, so that
` + "`raw PATH`" + ` and curl reach the same routes: each command below names its own. A path ends in the format it is asked for in.
Settings named like password, secret, token, credentials or key, and what Secrets hold, are shown as
` + "`(redacted)`" + ` unless ` + "`--show-secrets`" + ` is given.

Exit codes are listed in [operations](../operations.md).
`

// routesOf names the route of the debug socket behind each command.
var routesOf = map[string]string{
	"queue list": "/queue/list", "queue main": "/queue/main",
	"global list": "/global/list", "global values": "/global/values", "global config": "/global/config",
	"global patches": "/global/patches", "global snapshots": "/global/snapshots",
	"module list": "/module/list", "module values": "/module/MODULE/values", "module config": "/module/MODULE/config",
	"module patches": "/module/MODULE/patches", "module snapshots": "/module/MODULE/snapshots",
	"module render": "/module/MODULE/render", "module resource-monitor": "/module/resource-monitor",
	"hook list": "/hook/list", "hook snapshot": "/hook/HOOK/snapshots",
	"config list": "/config/list", "config set": "POST /config/set",
	"task retry": "POST /task/ID/retry", "task skip": "POST /task/ID/skip", "task release": "POST /task/ID/release",
	"workflow inspect": "/workflow/inspect", "workflow list": "/workflow/list",
	"store check": "/store/check", "store dump": "/store/dump", "store snapshot": "/store/snapshot",
}

func cliPage() string {
	var page strings.Builder
	page.WriteString(cliIntro)
	root := newRoot()
	for _, group := range root.Commands() {
		if group.Hidden || group.Name() == "help" || group.Name() == "completion" {
			continue
		}
		if !group.HasSubCommands() {
			fmt.Fprintf(&page, "\n## %s\n\n%s.\n", group.Name(), group.Short)
			if group.Name() != "start" {
				page.WriteString(flagTable(group.LocalFlags()))
			} else {
				page.WriteString("\nIts flags and variables: [settings](settings.md). It is what is done without a command, too.\n")
			}
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n", group.Name(), group.Short)
		for _, verb := range group.Commands() {
			fmt.Fprintf(&page, "\n### %s\n\n%s.\n", strings.TrimPrefix(verb.UseLine(), "addon-operator "), verb.Short)
			if route := routesOf[group.Name()+" "+verb.Name()]; route != "" {
				fmt.Fprintf(&page, "Route: `%s`.\n", route)
			}
			page.WriteString(flagTable(verb.LocalNonPersistentFlags()))
		}
	}
	page.WriteString("\n## Flags of all commands that ask\n" + flagTable(group(root, "queue").PersistentFlags()))
	return page.String()
}

func group(root *cobra.Command, name string) *cobra.Command {
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	return root.Commands()[i]
}

// flagTable returns a table of the flags that are shown, empty if there are none.
func flagTable(flags *pflag.FlagSet) string {
	var rows strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", name, shownDefault(f), cell(f.Usage))
	})
	if rows.Len() == 0 {
		return ""
	}
	return "\n| flag | default | |\n|---|---|---|\n" + rows.String()
}

// shownDefault returns the default of a flag, of one that depends on the machine
// in general terms.
func shownDefault(f *pflag.Flag) string {
	switch f.Name {
	case "tmp-dir":
		return "`/tmp/addon-operator`"
	case "hook-tools-dir":
		return "`hooktools` beside the program"
	}
	if f.DefValue == "" {
		return ""
	}
	return "`" + f.DefValue + "`"
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

const settingsIntro = `# Settings

<!-- Made from the code by go test ./cmd/addon-operator -run Reference -update. -->

What ` + "`addon-operator start`" + ` is told. A flag comes before a variable, and of the variables of a row the first that is set
counts. A variable that is empty counts as not set. What is yes or no takes true, false, yes, no, on, off, 1 and 0.

| flag | variables | default | |
|---|---|---|---|
`

const unservedIntro = `
## Accepted, without effect

These are taken so that manifests of addon-operator and shell-operator can be used as they are. The operator warns at start about
each that is set.

| flag | variable | why |
|---|---|---|
`

const fatalIntro = `
## Refused

Variables of Tiller (` + "`ADDON_OPERATOR_TILLER_…`, `TILLER_MAX_HISTORY`, `TILLER_BIN_PATH`, `HELM2`" + `) end the start with an error: Helm 2 is
not supported.
`

func settingsPage() string {
	var page strings.Builder
	page.WriteString(settingsIntro)
	var s Settings
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	f.SortFlags = false
	envSettings(&s, f)
	f.VisitAll(func(one *pflag.Flag) {
		if one.Hidden {
			return
		}
		usage, variables, _ := strings.Cut(strings.TrimSuffix(one.Usage, "]"), " [$")
		names := strings.Split(variables, ", $")
		fmt.Fprintf(&page, "| `--%s` | `%s` | %s | %s |\n", one.Name, strings.Join(names, "`, `"), shownDefault(one), cell(usage))
	})
	page.WriteString(unservedIntro)
	for _, u := range unservedSettings {
		name := ""
		if u.flag != "" {
			name = "`--" + u.flag + "`"
		}
		fmt.Fprintf(&page, "| %s | `%s` | %s |\n", name, u.env, cell(u.why))
	}
	page.WriteString(fatalIntro)
	return page.String()
}
