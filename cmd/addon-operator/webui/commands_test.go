package webui_test

import (
	"strings"
	"testing"

	"addon-operator/workflow/inspect"
)

func TestCommandsInProseAreCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"restore the directories, then run addon-operator reload": "restore the directories, then run <code>addon-operator reload</code>",
		"see it: kubectl describe resourcequota team. Then <b>":   "see it: <code>kubectl describe resourcequota team</code>. Then &lt;b&gt;",
		`kubectl describe pod ("OOMKilled": raise it)`:            "<code>kubectl describe pod</code> (&#34;OOMKilled&#34;: raise it)",
		"kubectl get --raw '/readyz?verbose' says which part":     "<code>kubectl get --raw &#39;/readyz?verbose&#39;</code> says which part",
		"clocks (chronyc tracking, timedatectl) differ":           "clocks (<code>chronyc tracking</code>, timedatectl) differ",
		"chmod +x /m/web/hooks/x.sh, also where it is built":      "<code>chmod +x /m/web/hooks/x.sh</code>, also where it is built",
		"addon-operator v1 cannot read it":                        "addon-operator v1 cannot read it",
	} {
		found := inspect.Diagnosis{Findings: []inspect.Finding{{Text: "f", Fix: text}}}
		inOrder(t, answers{"/diagnosis": found}.view(t, "/", false), "<strong>Fix:</strong> "+want+"</p>")
	}
}

func TestCommandsThatAreHardToUndoComeLastAndAreMarked(t *testing.T) {
	t.Parallel()
	found := inspect.Diagnosis{Findings: []inspect.Finding{{Text: "f", Fix: "then run addon-operator reload", Advice: []inspect.Advice{
		{Args: []string{"reload", "--allow-purge=2"}, Why: "this uninstalls the releases"},
		{Args: []string{"task", "skip", "1-2"}, Why: "it is not upgraded"},
		{Args: []string{"why", "app"}, Why: "the chain of causes"},
		{Args: []string{"task", "retry", "1-2"}, Why: "once it is mended"},
		{Args: []string{"resume", "module", "web"}, Why: "this starts the work that waits"},
	}}}}
	view := answers{"/diagnosis": found}.view(t, "/", false)
	inOrder(t, view, "<code>addon-operator reload</code>", "why app</code>", "task retry 1-2</code>", "resume module web</code>",
		"Hard to undo", `<ul class="advice danger">`, "--allow-purge=2</code>", `<span class="effect">this uninstalls the releases</span>`, "task skip 1-2</code>")
	found.Findings[0].Advice = found.Findings[0].Advice[2:]
	if view = (answers{"/diagnosis": found}).view(t, "/", false); strings.Contains(view, "Hard to undo") {
		t.Errorf("a command is marked that deletes nothing:\n%s", view)
	}
}
