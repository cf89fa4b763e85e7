package main

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
)

// versionInfo has the version of the program, of Go, and the platform for which the program was
// built.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersion returns the command "version".
func newVersion() *cobra.Command {
	var o output
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: args(cobra.NoArgs)}
	o.declare(cmd, "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		info := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		var body bytes.Buffer
		if o.isText() {
			_, _ = fmt.Fprintf(&body, "addon-operator %s\n", info.Version)
		} else if err := (debugapi.Page{Data: info}).Encode(&body, o.format); err != nil {
			return err
		}
		_, err := body.WriteTo(cmd.OutOrStdout())
		return err
	}
	return cmd
}
