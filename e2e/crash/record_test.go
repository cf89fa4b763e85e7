package crash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// recorder is the template of the hooks that [script] returns. A hook appends one line to the record at the start of a
// run and one line at the end. Each line is a single write to a file opened with O_APPEND, so that the lines of parallel
// hooks do not mix.
const recorder = `#!/bin/bash
if [[ $1 == --config ]]; then echo '%s'; exit; fi
IFS= read -r -d '' context <"$BINDING_CONTEXT_PATH"
line="$ADDON_OPERATOR_TASK_ID	$ADDON_OPERATOR_ATTEMPT	$ADDON_OPERATOR_PREVIOUS	%s	$context"
echo "begin	$line" >>"$RECORD"
%s
echo "end	$line" >>"$RECORD"
`

// A run is one line of the record: the start or the end of a hook run. word is "begin" or "end".
type run struct {
	word, task, attempt, previous, hook string
	elements                            []element
}

// An element is one element of a binding context.
type element struct {
	Binding      string          `json:"binding"`
	Type         string          `json:"type"`
	WatchEvent   string          `json:"watchEvent"`
	FilterResult json.RawMessage `json:"filterResult"`
	Object       struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	} `json:"object"`
	Objects []struct {
		FilterResult json.RawMessage `json:"filterResult"`
	} `json:"objects"`
}

func (e element) String() string {
	text := strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Binding, e.Type, e.WatchEvent, e.FilterResult))
	for _, o := range e.Objects {
		text += " " + string(o.FilterResult)
	}
	return text
}

// readRecord returns the runs in the file at path. readRecord returns none if the file does not exist. It ignores an
// incomplete last line, which a hook is writing or a kill has cut.
func readRecord(path string) ([]run, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var runs []run
	for line := range strings.Lines(string(content)) {
		if !strings.HasSuffix(line, "\n") {
			continue
		}
		parts := strings.SplitN(strings.TrimSpace(line), "\t", 6)
		if len(parts) != 6 {
			return nil, fmt.Errorf("%s: line %q is not a line of the recorder", path, line)
		}
		r := run{word: parts[0], task: parts[1], attempt: parts[2], previous: parts[3], hook: parts[4]}
		if err := json.Unmarshal([]byte(parts[5]), &r.elements); err != nil {
			return nil, fmt.Errorf("%s: binding context %q: %w", path, parts[5], err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// deliveries returns, for each hook and element of a binding context, the number of tasks that delivered the element
// to the hook in a completed run. Several runs for the same task count once.
func deliveries(runs []run) map[string]int {
	tasks := map[string]map[string]bool{}
	for _, r := range runs {
		if r.word != "end" {
			continue
		}
		for _, e := range r.elements {
			what := r.hook + ": " + e.String()
			if tasks[what] == nil {
				tasks[what] = map[string]bool{}
			}
			tasks[what][r.task] = true
		}
	}
	counts := map[string]int{}
	for what, by := range tasks {
		counts[what] = len(by)
	}
	return counts
}

// total returns the sum of counts.
func total(counts map[string]int) (sum int) {
	for n := range maps.Values(counts) {
		sum += n
	}
	return sum
}

// same reports whether a and b are runs of the same hook for the same task with the same binding context. To compare
// the tasks is not enough, because runs of several hooks can have the same task.
func same(a, b run) bool {
	return a.task == b.task && a.hook == b.hook && slices.EqualFunc(a.elements, b.elements, func(x, y element) bool {
		return x.String() == y.String()
	})
}

// repeated describes the runs that were repeated although they must not be. The parameter kills is the number of times
// that the operator was killed. After each kill, the hook that was running in a queue may run again, with the previous
// result "interrupted" in its environment. No other run may be repeated, and each run must be a first attempt. The
// function queue returns the queue of a hook.
func repeated(runs []run, kills int, queue func(hook string) string) []string {
	var wrong []string
	again := map[string]int{}
	for i, r := range runs {
		if r.attempt != "1" {
			wrong = append(wrong, fmt.Sprintf("%s of task %s is attempt %s: something failed", r.hook, r.task, r.attempt))
		}
		if r.word != "begin" {
			continue
		}
		if r.previous == "interrupted" {
			again[queue(r.hook)]++
		} else if slices.ContainsFunc(runs[:i], func(before run) bool { return same(before, r) }) {
			wrong = append(wrong, fmt.Sprintf("%s of task %s ran again and received the previous result %q: %s", r.hook, r.task, r.previous, r.elements))
		}
	}
	for queue, n := range again {
		if n > kills {
			wrong = append(wrong, fmt.Sprintf("%d runs in queue %s received the previous result interrupted after %d kills", n, queue, kills))
		}
	}
	return wrong
}

// repeated calls the function [repeated] for the runs of w. The module with the name "failing" repeats its failed runs
// by design. For this module, repeated only checks that its runs were not interrupted more often than the operator was
// killed.
func (w *environment) repeated(runs []run, kills int) []string {
	var wrong []string
	rest := slices.Clone(runs)
	if w.continues {
		var own []run
		rest, own = nil, nil
		for _, r := range runs {
			if r.hook != failing+"/all" {
				rest = append(rest, r)
			} else if r.previous == "interrupted" {
				r.attempt = "1"
				own = append(own, r)
			}
		}
		wrong = repeated(own, kills, queueOf)
	}
	return append(wrong, repeated(rest, kills, queueOf)...)
}
