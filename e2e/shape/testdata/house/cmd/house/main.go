// Command house imports all packages. The limit of imports does not apply to it.
package main

import (
	"os"

	"example.org/house/store"
	"example.org/house/workflow"
)

func main() {
	workflow.New(store.Door{}, os.Stdout.Sync).Ring()
	workflow.New(store.Window{}, os.Stdout.Sync).Ring()
}
