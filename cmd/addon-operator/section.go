package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"addon-operator/internal/values"
)

// newModuleShow returns a command that shows one kind of data of a module, such as its values. The
// name of the command is also the name of the data. If the argument sections is true, the command has the flag
// --global.
func newModuleShow(from *sourceFlags, name, about string, sections bool) *cobra.Command {
	var o output
	var global bool
	cmd := &cobra.Command{Use: name + " MODULE", Short: about, Args: args(cobra.ExactArgs(1)), ValidArgsFunction: from.complete(listModules)}
	o.declare(cmd, "yaml", "json", "text")
	if sections {
		cmd.Flags().BoolVarP(&global, "global", "g", false, "show the global section as well")
	}
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		query := url.Values{}
		if global {
			query.Set("global", "true")
		}
		return show(cmd, from, &o, "/module/"+url.PathEscape(argv[0])+"/"+name, query)
	}
	return cmd
}

// newGlobalShow returns a command that shows one kind of data of the global section or of global
// hooks. The name of the command is also the name of the data.
func newGlobalShow(from *sourceFlags, name, about string) *cobra.Command {
	var o output
	cmd := &cobra.Command{Use: name, Short: about, Args: args(cobra.NoArgs)}
	o.declare(cmd, "yaml", "json", "text")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return show(cmd, from, &o, "/global/"+name, nil) }
	return cmd
}

// sectionRoute returns the route for one kind of data of the module with the given name, or of the global section if
// name is "global".
func sectionRoute(name, what string) string {
	if name == values.Global {
		return "/global/" + what
	}
	return "/module/" + url.PathEscape(name) + "/" + what
}
