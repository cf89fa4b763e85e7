// Command jq is the command line of gojq. The operator is shipped with it, so that hooks can call jq on systems without
// jq. The directory of this command is the last directory in the PATH of hooks, so an installed jq has precedence.
package main

import (
	"os"

	"github.com/itchyny/gojq/cli"
)

func main() { os.Exit(cli.Run()) }
