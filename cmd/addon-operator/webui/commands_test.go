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
		"kubectl get --raw '/readyz?verbose' says which part":     "<code>kubectl get --raw &#39;/<wbr>readyz?verbose&#39;</code> says which part",
		"clocks (chronyc tracking, timedatectl) differ":           "clocks (<code>chronyc tracking</code>, timedatectl) differ",
		"chmod +x /m/web/hooks/x.sh, also where it is built":      "<code>chmod +x /<wbr>m/<wbr>web/<wbr>hooks/<wbr>x.sh</code>, also where it is built",
		"addon-operator v1 cannot read it":                        "addon-operator v1 cannot read it",
	} {
		found := inspect.Diagnosis{Findings: []inspect.Finding{{Pattern: "f", Text: text}}}
		inOrder(t, answers{"/diagnosis": found}.view(t, "/", false), "<h3>f: "+want+"</h3>")
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
		{Args: []string{"hook", "run", "backup/hooks/dump.sh"}, Why: "this runs the hook as at the tick"},
	}}}}
	view := answers{"/diagnosis": found}.view(t, "/", false)
	inOrder(t, view, "<code>addon-operator reload</code>", "why app</code>", "task retry 1-2</code>", "resume module web</code>", "hook run backup/hooks/dump.sh</code>",
		"Hard to undo", `<ul class="advice danger">`, "--allow-purge=2</code>", `<span class="effect">this uninstalls the releases</span>`, "task skip 1-2</code>")
	found.Findings[0].Advice = found.Findings[0].Advice[2:]
	if view = (answers{"/diagnosis": found}).view(t, "/", false); strings.Contains(view, "Hard to undo") {
		t.Errorf("a command that deletes nothing is marked as hard to undo:\n%s", view)
	}
}

func TestACommandIsCodeToCopyAndNoLink(t *testing.T) {
	t.Parallel()
	why := inspect.Why{Advice: []inspect.Advice{{Args: []string{"task", "retry", "1-19"}, Why: "once it is mended"}, {Args: []string{"logs", "1-19"}}}}
	a := answers{"/workflow/why": why}
	inOrder(t, a.view(t, "/why?subject=1-19", false), `<code>addon-operator task retry 1-19</code> <button type="button" class="copy"`, `<a href="/task/1-19">task 1-19</a>`)
	view := a.view(t, "/task/1-19", false)
	inOrder(t, view, "task retry 1-19</code>", `<a href="/logs?subject=1-19">output 1-19</a>`)
	if strings.Contains(view, `href="/task/1-19"`) {
		t.Errorf("the view links to itself:\n%s", view)
	}
}

func TestWithoutActionsAViewHasCommandsOnly(t *testing.T) {
	t.Parallel()
	a := answers{"/status": inspect.Status{Modules: []inspect.StatusModule{{Name: "app"}}}}
	view := a.view(t, "/module/app", false)
	inOrder(t, view, `<h2 id="act">Commands</h2>`, "<code>addon-operator module run app</code>", "<code>addon-operator pause module app --reason TEXT</code>")
	if strings.Contains(view, "<details") || strings.Contains(view, "are disabled") {
		t.Errorf("the view has forms, although actions are disabled:\n%s", view)
	}
	inOrder(t, a.view(t, "/module/app", true), `<h2 id="act">Actions</h2>`, `action="/do/module/app/run"`)
}
