package webui_test

import (
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
