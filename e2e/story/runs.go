package story

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"
	"github.com/rogpeppe/go-internal/testscript"
)

const (
	// quiet is the time without a task to do and without a new hook run after which settle treats the operator as
	// idle. Like standstill, quiet does not include the time in which settle asks the operator: on a busy machine, one
	// answer can take longer than quiet.
	quiet = 2 * time.Second
	// standstill is the time without a change after which settle returns although a task runs, because the task may be
	// waiting for the story.
	standstill = 10 * time.Second
	// settling is the time between two requests of settle to the operator.
	settling = 100 * time.Millisecond
)

var runCommands = map[string]command{
	"runs":        lookAtRuns,
	"expect-runs": expectRuns,
	"await-run":   awaitRun,
	"settle":      settle,
	"context":     told("context"),
	"values":      told("values"),
	"config":      told("config"),
	"told":        lookAtTold,
	"expect-told": expectTold,
	"attempt":     attempt,
}

// A run is one execution of a hook, as the hook has recorded it in the directory dir.
type run struct {
	dir  string
	hook string // MODULE/FILE, or global/FILE
	n    int    // number of the run of this hook, from 1
}

// An element is one element of a binding context.
type element struct {
	Binding    string `json:"binding"`
	Type       string `json:"type"`
	WatchEvent string `json:"watchEvent"`
	Object     struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	} `json:"object"`
}

// String returns the binding of the element and the reason for the run, in a form such as "pods@Added:a".
func (e element) String() string {
	switch {
	case e.Type == "":
		return e.Binding
	case e.Type != "Event":
		return e.Binding + "@" + e.Type
	case e.Object.Metadata.Name == "":
		return e.Binding + "@" + e.WatchEvent
	default:
		return e.Binding + "@" + e.WatchEvent + ":" + e.Object.Metadata.Name
	}
}

// runs returns the recorded runs of all hooks in the order of their starts.
func (w *environment) runs() ([]run, error) {
	text, err := os.ReadFile(w.path("runs/order"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var runs []run
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		hook, number, _ := strings.Cut(name, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("run %q: %w", name, err)
		}
		runs = append(runs, run{dir: w.path(filepath.Join("runs", name)), hook: strings.ReplaceAll(hook, "%", "/"), n: n})
	}
	return runs, nil
}

// line returns the hook and its binding context in the notation of stories, such as "web/watch.sh pods@Added:a
// pods@Deleted:a".
func (r run) line() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.dir, "context.json"))
	if errors.Is(err, os.ErrNotExist) {
		return r.hook, nil // enabled scripts record their runs, too, but have no binding context
	}
	if err != nil {
		return "", err
	}
	var elements []element
	if err := json.Unmarshal(text, &elements); err != nil {
		return "", err
	}
	words := []string{r.hook}
	for _, e := range elements {
		words = append(words, e.String())
	}
	return strings.Join(words, " "), nil
}

// lines returns a line for each recorded run of the given hooks, or of all hooks if hooks is empty.
func (w *environment) lines(hooks []string) ([]string, error) {
	runs, err := w.runs()
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, r := range runs {
		if len(hooks) > 0 && !slices.Contains(hooks, r.hook) {
			continue
		}
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// lookAtRuns implements the command "runs [HOOK...]". It prints a line for each run of the hooks so far.
func lookAtRuns(w *environment, ts *testscript.TestScript, args []string) error {
	say(ts, "") // replaces the output of the previous command, even if there is no run
	lines, err := w.lines(args)
	for _, line := range lines {
		say(ts, line+"\n")
	}
	return err
}

// expectRuns implements the command "expect-runs FILE [HOOK...]". It waits until the runs of these hooks, or of all
// hooks if none is given, equal the lines of FILE, in the same order.
func expectRuns(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return usage("expect-runs FILE [HOOK...]")
	}
	var want []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if line = strings.TrimSpace(line); line != "" {
			want = append(want, line)
		}
	}
	return wait(func() error {
		got, err := w.lines(args[1:])
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("the runs differ (-want +got):\n%s", diff)
		}
		return nil
	})
}

// find returns the run with this number of a hook. The first run has the number 1, and the last run has the number -1.
func (w *environment) find(hook, number string) (run, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n == 0 {
		return run{}, fmt.Errorf("%q is not the number of a run: want 1 for the first, -1 for the last", number)
	}
	runs, err := w.runs()
	if err != nil {
		return run{}, err
	}
	runs = slices.DeleteFunc(runs, func(r run) bool { return r.hook != hook })
	if n < 0 {
		n += len(runs) + 1
	}
	if n < 1 || n > len(runs) {
		return run{}, fmt.Errorf("%s has run %d times", hook, len(runs))
	}
	return runs[n-1], nil
}

// awaitRun implements the command "await-run HOOK N". It waits until the hook has started at least N times.
func awaitRun(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("await-run HOOK N")
	}
	return wait(func() error {
		_, err := w.find(args[0], args[1])
		return err
	})
}

// settle implements the command "settle". It waits until the operator has been idle for the duration of the constant
// quiet: no task runs or can start, and no hook starts. settle also returns if nothing has changed for the duration of
// the constant standstill, because a running task may be waiting for the story.
func settle(w *environment, _ *testscript.TestScript, args []string) error {
	if len(args) != 0 {
		return usage("settle")
	}
	before, unchanged := "", time.Duration(0)
	for began := time.Now(); time.Since(began) < patience; time.Sleep(settling) {
		runs, err := w.runs()
		if err != nil {
			return err
		}
		busy := w.busy()
		if now := fmt.Sprint(len(runs), busy); now != before {
			before, unchanged = now, 0
		}
		if unchanged >= quiet && len(busy) == 0 || unchanged >= standstill {
			return nil
		}
		unchanged += settling
	}
	return errors.New("hooks or tasks run repeatedly")
}

// busy returns the ids of the tasks that run or can start, each with the description of its step. If the operator does
// not answer, it returns the word "unknown".
func (w *environment) busy() (tasks []string) {
	if w.operator == nil {
		return nil
	}
	type task struct {
		ID          string          `json:"id"`
		Description string          `json:"description"`
		State       string          `json:"state"`
		Reason      json.RawMessage `json:"reason"` // the reason why the first task of a queue does not start
	}
	var queues struct {
		Active []struct {
			Tasks []task `json:"tasks"`
		} `json:"active"`
	}
	text, err := w.page("/queue/list.json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &queues)
	}
	if err != nil {
		return []string{"unknown"} // the operator does not answer while it starts or stops
	}
	for _, queue := range queues.Active {
		for i, t := range queue.Tasks {
			if i == 0 && t.Reason == nil || strings.HasPrefix(t.State, "runs for ") {
				tasks = append(tasks, t.ID+" "+t.Description)
			}
		}
	}
	return tasks
}

// told returns the implementation of the commands "context HOOK N [FILTER]", "values HOOK N [FILTER]" and "config HOOK
// N [FILTER]". The parameter what must be "context", "values" or "config". The command prints the results of the jq
// filter FILTER for an input file of run N of the hook: the binding context, the values, or the config values.
func told(what string) command {
	return func(w *environment, ts *testscript.TestScript, args []string) error {
		if len(args) != 2 && len(args) != 3 {
			return usage(what + " HOOK N [FILTER]")
		}
		var r run
		if err := wait(func() (err error) { r, err = w.find(args[0], args[1]); return err }); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(r.dir, what+".json"))
		if err != nil {
			return err
		}
		return printJSON(ts, text, append(args[2:], ".")[0])
	}
}

// lookAtTold implements the command "told HOOK FILTER". It joins the binding contexts of all runs of the hook into one
// list, and prints the results of the jq filter FILTER for it.
func lookAtTold(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("told HOOK FILTER")
	}
	results, err := w.told(args[0], args[1])
	say(ts, results)
	return err
}

// expectTold implements the command "expect-told FILE HOOK FILTER". It waits until the command "told HOOK FILTER"
// would print the text of FILE. Unlike settle, it also waits for the retry of a failed task.
func expectTold(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return usage("expect-told FILE HOOK FILTER")
	}
	want := ts.ReadFile(args[0])
	return wait(func() error {
		got, err := w.told(args[1], args[2])
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("the elements differ (-want +got):\n%s", diff)
		}
		return err
	})
}

// told joins the binding contexts of all runs of a hook into one list, and returns the results of the jq filter for
// this list as JSON, one result per line.
func (w *environment) told(hook, filter string) (lines string, err error) {
	runs, err := w.runs()
	if err != nil {
		return "", err
	}
	all := []any{}
	for _, r := range runs {
		if r.hook != hook {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.dir, "context.json"))
		if err != nil {
			return "", err
		}
		var elements []any
		if err := json.Unmarshal(text, &elements); err != nil {
			return "", err
		}
		all = append(all, elements...)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	return filtered(text, filter)
}

// printJSON applies the jq filter to text, which must be JSON, and prints the results as JSON, one per line.
func printJSON(ts *testscript.TestScript, text []byte, filter string) error {
	results, err := filtered(text, filter)
	say(ts, results)
	return err
}

// filtered applies the jq filter to text, which must be JSON, and returns the results as JSON, one per line.
func filtered(text []byte, filter string) (lines string, err error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	query, err := gojq.Parse(filter)
	if err != nil {
		return "", fmt.Errorf("filter %s: %w", filter, err)
	}
	for results := query.Run(value); ; {
		result, more := results.Next()
		if !more {
			return lines, nil
		}
		if err, failed := result.(error); failed {
			return lines, fmt.Errorf("filter %s: %w", filter, err)
		}
		var line bytes.Buffer
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(result); err != nil {
			return lines, err
		}
		lines += line.String()
	}
}

// attempt implements the command "attempt HOOK N". For run N of the hook, it prints the number of the attempt of its
// task, and the result of the previous attempt.
func attempt(w *environment, ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return usage("attempt HOOK N")
	}
	var r run
	if err := wait(func() (err error) { r, err = w.find(args[0], args[1]); return err }); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "attempt"))
	say(ts, string(text))
	return err
}
