package story

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// holdVariable names the story that is held open for a person.
const holdVariable = "INCIDENT_HOLD"

// hold keeps the story as it is, if a person asked for it, until the person deletes a file. It prints how to reach the
// operator and the cluster, and ends the story.
func (w *environment) hold() error {
	name := w.t.Name()
	if held := os.Getenv(holdVariable); held == "" || held != name[strings.LastIndex(name, "/")+1:] {
		return nil
	}
	file := w.path("hold")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	source := "export DEBUG_UNIX_SOCKET=" + w.path("socket") + "\n"
	flags := ""
	if w.reader != nil && w.reader.store != "" {
		source, flags = "", " --store "+w.reader.store
	}
	fmt.Fprintf(os.Stderr, "\nThe incident is built. In another terminal of %d columns and %d rows:\n\nexport KUBECONFIG=%s\n%saddon-operator() { %s \"$@\"; }\n"+
		"addon-operator status%s\n\nIts namespace is %s. To end it: rm %s\n\n", screenColumns, screenRows, w.kubeconfig, source, w.program, flags, w.namespace, file)
	for {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			w.t.SkipNow()
		}
		time.Sleep(time.Second)
	}
}
