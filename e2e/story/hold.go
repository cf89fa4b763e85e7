package story

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// holdVariable is the environment variable with the name of the story that must be held, so that a user can look at its
// operator and cluster.
const holdVariable = "INCIDENT_HOLD"

// hold returns at once if holdVariable does not name this story. Otherwise it prints how to reach the operator and the
// cluster, waits until the user deletes a file, and skips the rest of the story.
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
	page := "No operator runs, so there is no web page."
	if w.operator != nil {
		page = "Its web page, for a browser or curl on this machine, is http://" + w.operator.web + "/"
	}
	fmt.Fprintf(os.Stderr, "\nThe incident is built. In another terminal of %d columns and %d rows:\n\nexport KUBECONFIG=%s\n%saddon-operator() { %s \"$@\"; }\n"+
		"addon-operator status%s\n\n%s\nIts namespace is %s. To end it: rm %s\n\n", screenColumns, screenRows, w.kubeconfig, source, w.program, flags, page, w.namespace, file)
	for {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			w.t.SkipNow()
		}
		time.Sleep(time.Second)
	}
}
