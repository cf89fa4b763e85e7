package webui_test

import (
	"os"
	"strings"
	"testing"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

func TestEachViewOfAProblemSaysWhatToMend(t *testing.T) {
	t.Parallel()
	task := store.ID{Epoch: 1, N: 19}
	why := inspect.Why{Subject: "app", Answers: []inspect.Answer{{Question: "Why?", Causes: []inspect.CauseStep{{Text: "it fails"}}}}, Fix: "raise the quota"}
	a := answers{
		"/workflow/why": why, "/status": inspect.Status{Modules: []inspect.StatusModule{{Name: "app"}}},
		"/workflow/inspect": inspect.Run{ID: 3, Problems: []inspect.Problem{{Kind: inspect.KindFailing, Run: 3, Task: task, Error: "no"}}},
		"/diagnosis":        inspect.Diagnosis{Findings: []inspect.Finding{{Fix: "raise the quota", Evidence: []inspect.CauseStep{{Run: 3, Task: task}}}}},
	}
	for _, path := range []string{"/", "/run/3", "/module/app", "/task/1-19", "/why?subject=app"} {
		inOrder(t, a.view(t, path, false), "<strong>Fix:</strong> raise the quota")
	}
}

func TestErrorsOfFindingsAreWrapped(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	if _, rule, _ := strings.Cut(string(css), ".finding pre {"); !strings.Contains(rule[:strings.IndexByte(rule, '}')], "white-space: pre-wrap") {
		t.Error("a person must scroll to read a long error")
	}
}
