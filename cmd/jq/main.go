// Command jq is the command line of gojq. Command jq is shipped with the operator for hooks that call jq on systems
// without jq. The directory of this command is the last directory in the PATH of hooks, so an installed jq has
// precedence.
package main

import (
	"os"

	"github.com/itchyny/gojq/cli"
)

func main() { os.Exit(cli.Run()) }
