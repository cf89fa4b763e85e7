package webui_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// began is the time at which the steps in the tests of charts began.
var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// oneStep returns the answers of a debug API for a run. The first step of the run has the given state and one attempt.
// The steps in the argument more have no attempts.
func oneStep(state inspect.State, more ...inspect.Step) answers {
	task, node := store.ID{Epoch: 1, N: 7}, string(lifecycle.ConfigMapChanged)
	return answers{
		"/workflow/inspect": inspect.Run{ID: 3, Graph: lifecycle.Graph.Name, Trigger: string(lifecycle.OnConfigMap), Began: began, Steps: append([]inspect.Step{{
			Node: node, State: state, Task: task, Began: began, Ended: began.Add(time.Second),
		}}, more...)},
		"/workflow/timeline": inspect.Timeline{Entries: []inspect.Entry{{
			At: began.Add(time.Second), What: "done", Run: 3, Task: task, Node: node, Queue: "main", Began: began, Try: 1,
		}}},
	}
}

func TestAttemptOfARefusedStepIsRed(t *testing.T) {
	t.Parallel()
	inOrder(t, oneStep(inspect.Refused).view(t, "/run/3", false), `aria-label="Chart of attempts by time"`, `class="bar bad"`, "configmap-changed: refused after")
}

func TestGraphIsDrawnForARunOfSeveralStepsOnly(t *testing.T) {
	t.Parallel()
	view := oneStep(inspect.Done).view(t, "/run/3", false)
	inOrder(t, view, "The run has only one step of the graph.", "<summary>The graph as text</summary>", "binding queue    the task gets")
	if strings.Contains(view, `<svg class="graph"`) {
		t.Error("the graph of one step is drawn")
	}
	several := oneStep(inspect.Done, inspect.Step{Node: string(lifecycle.DiscoverModules), State: inspect.Done})
	inOrder(t, several.view(t, "/run/3", false), `<svg class="graph"`, "<summary>The graph as text</summary>")
}

func TestLinesOfTheGraphDoNotCrossItsHeadings(t *testing.T) {
	t.Parallel()
	view := oneStep(inspect.Done, inspect.Step{Node: string(lifecycle.DiscoverModules), State: inspect.Done}).view(t, "/run/3", false)
	line := regexp.MustCompile(`<path class="edge[^"]*" d="M(\d+) \d+V`).FindStringSubmatch(view)
	heading := regexp.MustCompile(`<text class="heading" x="(\d+)"`).FindStringSubmatch(view)
	if line == nil || heading == nil {
		t.Fatalf("there is no line or no heading:\n%s", view)
	}
	x, _ := strconv.Atoi(line[1])
	text, _ := strconv.Atoi(heading[1])
	if text <= x {
		t.Errorf("a line at %d crosses the heading at %d", x, text)
	}
}
