package webui_test

import (
	"strings"
	"testing"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

func TestReleasesThatTheSafetyCheckKeepsAreNamed(t *testing.T) {
	t.Parallel()
	view := answers{"/module/list": map[string]any{
		"modules": []any{map[string]any{"name": "three", "revision": 1}},
		"problems": []inspect.Problem{
			{Kind: inspect.Kind(store.BadDirectories), Error: "module four cannot be loaded"},
			{
				Kind: inspect.Kind(store.BlockedDeletion), Error: "2 of 3 releases would be uninstalled, so the safety check keeps them: one, two",
				Fix: "run addon-operator reload", Command: []string{"reload", "--allow-purge=2"}, Effect: "uninstalls the releases",
			},
		},
	}}.view(t, "/releases", false)
	inOrder(t, view, "keeps them: one, two", "<code>addon-operator reload</code>", "Hard to undo", "--allow-purge=2</code>", ">three</a>")
	if strings.Contains(view, "four") {
		t.Errorf("a problem other than a blocked deletion is shown:\n%s", view)
	}
}

func TestTheObjectsOfADisabledModuleAreNotKnown(t *testing.T) {
	t.Parallel()
	a := answers{
		"/module/list":             map[string]any{"modules": []any{map[string]any{"name": "web", "revision": 3}, map[string]any{"name": "empty", "revision": 2}}},
		"/module/resource-monitor": map[string]any{"empty": []string{}},
	}
	view := a.view(t, "/releases", false)
	inOrder(t, view, ">web</a>", ">3</td><td class=\"number\"></td>", ">empty</a>", ">2</td><td class=\"number\" data-label=\"objects\">0</td>")
	inOrder(t, a.view(t, "/release/web", false), "Revision 3 of", "<p>not watched, because the module is disabled</p>")
	inOrder(t, a.view(t, "/release/empty", false), "Revision 2 of", "<p>none</p>")
}
