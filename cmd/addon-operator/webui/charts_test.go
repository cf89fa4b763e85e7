package webui_test

import (
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// began is when the steps of these tests began.
var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// oneStep returns the answers about a run of one step in a state.
func oneStep(state inspect.State) answers {
	task, node := store.ID{Epoch: 1, N: 7}, string(lifecycle.ConfigMapChanged)
	return answers{
		"/workflow/inspect": inspect.Run{ID: 3, Graph: lifecycle.Graph.Name, Trigger: string(lifecycle.OnConfigMap), Began: began, Steps: []inspect.Step{{
			Node: node, State: state, Task: task, Began: began, Ended: began.Add(time.Second),
		}}},
		"/workflow/timeline": inspect.Timeline{Entries: []inspect.Entry{{
			At: began.Add(time.Second), What: "done", Run: 3, Task: task, Node: node, Queue: "main", Began: began, Try: 1,
		}}},
	}
}

func TestAttemptOfARefusedStepIsRed(t *testing.T) {
	t.Parallel()
	inOrder(t, oneStep(inspect.Refused).view(t, "/run/3", false), `aria-label="Chart of attempts by time"`, `class="bar bad"`, "configmap-changed: refused after")
}
