package webui_test

import (
	"testing"

	"addon-operator/workflow/inspect"
)

func TestButtonsOfAPausedModuleSayWhatThePauseDoes(t *testing.T) {
	t.Parallel()
	a := answers{"/status": inspect.Status{
		Modules:  []inspect.StatusModule{{Name: "app"}},
		Problems: []inspect.Problem{{Kind: inspect.KindPaused, Command: []string{"resume", "module", "app"}, Error: "module app is paused by bob: storage is moved"}},
	}}
	inOrder(t, a.view(t, "/module/app", true),
		"The module is paused: the run waits until the module is resumed.", "First ask whether the reason of the pause still holds: module app is paused by bob: storage is moved.")
}
