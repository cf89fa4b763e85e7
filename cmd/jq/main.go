// Command jq is gojq's command line, shipped beside the operator so that hooks written for jq run where none is installed.
// Its directory comes last on the PATH of hooks: a jq of the system's goes first.
package main

import (
	"os"

	"github.com/itchyny/gojq/cli"
)

func main() { os.Exit(cli.Run()) }
