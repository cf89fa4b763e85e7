package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"addon-operator/e2e/screen"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// onTerminal runs cmd on a pseudo-terminal with this number of columns, and returns the output of
// cmd.
func onTerminal(t *testing.T, columns uint16, cmd *exec.Cmd) string {
	t.Helper()
	shown, err := screen.Show(cmd, 50, columns)
	if err != nil {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	return shown
}

// A failingStep always fails.
type failingStep struct{ err error }

func (s failingStep) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, s.err
}

func (failingStep) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

const wordsOfFailure = 120

// failedStore returns the path of a store file. The only module in the store has failed. Its error consists of
// wordsOfFailure words, each with its number.
func failedStore(t *testing.T) string {
	t.Helper()
	var why strings.Builder
	for i := range wordsOfFailure {
		fmt.Fprintf(&why, "word-%d ", i)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	db := makeStore(t, path)
	defer closeStore(t, db)
	code := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			code[n.ID] = failingStep{errors.New(why.String())}
		}
	}
	engine, err := workflow.New(db, workflow.Observer{}, workflow.Implementation{Graph: lifecycle.Graph, Steps: code})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Stop()
	if err := engine.Start(func(tx *store.Tx) ([]workflow.Event, error) {
		err := store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, Why: "values.yaml"})
		return []workflow.Event{{On: lifecycle.OnResourcesAbsent, Subject: graph.Subject{Module: "web"}}}, err
	}); err != nil {
		t.Fatal(err)
	}
	for failed := false; !failed; time.Sleep(5 * time.Millisecond) {
		if err := db.View(func(tx *store.Tx) error {
			head, ok, err := store.Head(tx, workflow.Main)
			failed = ok && head.Failed != nil
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// asked returns a command that reads the store at path. The argument verb has the words of the
// command, separated by spaces.
func asked(t *testing.T, path, verb string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := process(t, append(strings.Fields(verb), "--store", path)...)
	cmd.Env = append(os.Environ(), append([]string{"NO_COLOR=1", "TZ=UTC"}, env...)...)
	return cmd
}

// TestReasonsFitTheTerminalAndAreNeverCutOffInWideTextInPipesAndInJSON runs commands that show the reasons of failures,
// on pseudo-terminals and in pipes. On a terminal, a long reason is cut off, and only a line with a command to type may
// be wider than the terminal. Wide text, the text in a pipe, and JSON must have the whole reason.
func TestReasonsFitTheTerminalAndAreNeverCutOffInWideTextInPipesAndInJSON(t *testing.T) {
	t.Parallel()
	path := failedStore(t)
	for _, verb := range []string{"workflow inspect", "module list", "queue main", "queue list"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			for _, columns := range []uint16{80, 200} {
				for _, text := range []string{onTerminal(t, columns, asked(t, path, verb)), onTerminal(t, columns, asked(t, path, verb+" -o wide"))} {
					for line := range strings.Lines(text) {
						if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > int(columns) && !strings.Contains(line, "addon-operator ") {
							t.Errorf("on %d columns a line has %d: %s", columns, n, line)
						}
					}
				}
			}
			narrow, wide := onTerminal(t, 80, asked(t, path, verb)), onTerminal(t, 80, asked(t, path, verb+" -o wide"))
			if strings.Contains(narrow, "word-90") || !strings.Contains(narrow, "…") {
				t.Errorf("on 80 columns the reason takes the screen:\n%s", narrow)
			}
			texts := map[string]string{"wide on a terminal": wide}
			graph, err := asked(t, path, "workflow graph 1").Output()
			if err != nil {
				t.Fatal(err)
			}
			texts["a graph in a pipe"] = string(graph)
			for _, format := range []string{"", " -o wide", " -o json", " -o yaml"} {
				piped, err := asked(t, path, verb+format).Output()
				if err != nil {
					t.Fatal(err)
				}
				texts["a pipe with"+format] = string(piped)
			}
			for name, text := range texts {
				for i := range wordsOfFailure {
					if !strings.Contains(text, fmt.Sprintf("word-%d", i)) {
						t.Errorf("%s: word-%d is missing:\n%s", name, i, text)
						break
					}
				}
			}
		})
	}
}

func TestTimesAreLocalUnlessAskedForInUTC(t *testing.T) {
	now := time.Now().UTC() // before the run begins
	path := failedStore(t)
	for verb, want := range map[string]string{
		"workflow inspect":       "began     " + now.UTC().Add(14*time.Hour).Format("15:"),
		"workflow inspect --utc": "began     " + now.UTC().Format("15:"),
	} {
		text, err := asked(t, path, verb, "TZ=Pacific/Kiritimati").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		age := "+14:00 ("
		if strings.Contains(verb, "utc") {
			age = "Z ("
		}
		if time.Now().UTC().Hour() == now.Hour() && !strings.Contains(string(text), want) || !strings.Contains(string(text), age) {
			t.Errorf("%s: want %q and %q in\n%s", verb, want, age, text)
		}
	}
}

func TestWatchedJSONIsOneValidLineEachTime(t *testing.T) {
	path := failedStore(t)
	for _, verb := range []string{"queue list -w -t 100ms -o json", "queue main -w -t 100ms -o json"} {
		cmd := asked(t, path, verb)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 {
			if !lines.Scan() || !json.Valid(lines.Bytes()) || !strings.Contains(lines.Text(), `"tasksCount":`) {
				t.Errorf("%s: a line is no JSON: %q, %v", verb, lines.Text(), lines.Err())
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error says only that the command was killed
	}
	// If no operator runs, the command "workflow inspect --watch" ends after one snapshot.
	out, err := asked(t, path, "workflow inspect -w -o json").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		run := new(inspect.Run)
		if err := json.Unmarshal([]byte(line), run); err != nil || run.ID != 1 {
			t.Errorf("a line is no snapshot: %v: %s", err, line)
		}
	}
}
