package webui_test

import (
	"os"
	"testing"

	"addon-operator/workflow/inspect"
)

func TestCountsAgreeWithWhatTheyCount(t *testing.T) {
	t.Parallel()
	inOrder(t, oneStep(inspect.Done).view(t, "/run/3", false), "1 attempt in 1 queue within")
	for want, status := range map[string]inspect.Status{
		"<p>no pending tasks –": {}, "<p>1 pending task, due later or held, none in a queue –": {Later: 1},
		"<p>2 pending tasks in 1 queue –":                         {Queues: []inspect.StatusQueue{{Tasks: 2}}},
		"<p>5 pending tasks: 2 in 1 queue, 3 due later or held –": {Queues: []inspect.StatusQueue{{Tasks: 2}}, Later: 3},
	} {
		inOrder(t, answers{"/status": status}.view(t, "/", false), want)
	}
}

func TestRowsOnAPhoneSayWhatTheirNumbersAre(t *testing.T) {
	t.Parallel()
	view := answers{"/status": inspect.Status{
		Live: true, Queues: []inspect.StatusQueue{{Name: "main", Tasks: 2, Wait: &inspect.Wait{For: inspect.ForRetry}}}, Modules: []inspect.StatusModule{{Name: "app", ModuleStatus: inspect.ModuleStatus{State: inspect.ModuleFailing}}},
	}}.view(t, "/", false)
	inOrder(t, view, `<td data-label="since">`, `<td class="number" data-label="tasks">2</td><td data-label="head for">`)
	css, err := os.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	inOrder(t, string(css), "@media (max-width: 40rem)", "content: attr(data-label)")
}
