package story

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var apartCommands = map[string]command{
	"apart":          apart,
	"attempts-apart": attemptsApart,
}

// apart implements the command "apart HOOK N M AT-LEAST AT-MOST". It fails unless the time from the start of run N to
// the start of run M of the hook is within these limits, in seconds. The hook records the start of a run itself. On a
// busy machine, the recorded time can be seconds after the start of the attempt.
func apart(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 5 {
		return usage("apart HOOK N M AT-LEAST AT-MOST")
	}
	return within(args[1:], func(n string) (began float64, err error) {
		var r run
		if err := wait(func() (err error) { r, err = w.find(args[0], n); return err }); err != nil {
			return 0, err
		}
		text, err := os.ReadFile(filepath.Join(r.dir, "began"))
		if err != nil {
			return 0, err
		}
		return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	})
}

// attemptsApart implements the command "attempts-apart HOOK N M AT-LEAST AT-MOST". It fails unless the time from the
// start of attempt N to the start of attempt M is within these limits, in seconds. Only successful attempts for
// Kubernetes events are counted. HOOK is the name of a module's hook in the operator's history, such as
// web/hooks/start.sh. The times are those of the history.
func attemptsApart(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 5 {
		return usage("attempts-apart HOOK N M AT-LEAST AT-MOST")
	}
	return within(args[1:], func(number string) (began float64, err error) {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("the attempt %q is not a number above 0", number)
		}
		err = wait(func() error {
			attempts, err := eventAttempts(w, args[0])
			if err != nil {
				return err
			}
			if len(attempts) < n {
				return fmt.Errorf("the history has %d attempts for events", len(attempts))
			}
			began = float64(attempts[n-1].UnixMilli()) / 1000
			return nil
		})
		return began, err
	})
}

// eventAttempts returns the starts of the successful attempts for Kubernetes events of a module's hook, oldest first.
func eventAttempts(w *environment, hook string) (began []time.Time, err error) {
	text, err := exec.Command(w.program, onSocket(w, []string{"timeline", hook, "-o", "json"})...).Output()
	if err != nil {
		return nil, fmt.Errorf("timeline %s: %w", hook, err)
	}
	var timeline struct {
		Entries []struct {
			What  string    `json:"what"`
			Node  string    `json:"node"`
			Began time.Time `json:"began"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(text, &timeline); err != nil {
		return nil, fmt.Errorf("timeline %s: %w", hook, err)
	}
	for _, e := range timeline.Entries {
		if e.Node == "module-kubernetes-event" && e.What == "done" {
			began = append(began, e.Began)
		}
	}
	return began, nil
}

// within returns an error unless the time from start N to start M is within the limits of args, which are N, M,
// AT-LEAST and AT-MOST. The function began returns the time of a start, in seconds.
func within(args []string, began func(n string) (float64, error)) error {
	first, err := began(args[0])
	if err != nil {
		return err
	}
	second, err := began(args[1])
	if err != nil {
		return err
	}
	least, err1 := strconv.ParseFloat(args[2], 64)
	most, err2 := strconv.ParseFloat(args[3], 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if got := second - first; got < least || got > most {
		return fmt.Errorf("start %s was %.1f s after start %s, not %s to %s s", args[1], got, args[0], args[2], args[3])
	}
	return nil
}
