package webui_test

import (
	"regexp"
	"testing"
)

func TestNavigationMarksTheViewThatIsOpenOnly(t *testing.T) {
	t.Parallel()
	marked := regexp.MustCompile(`<a href="([^"]*)" aria-current="page">`)
	for path, want := range map[string]string{
		"/": "/", "/timeline": "/timeline", "/queue/main": "/queues", "/logs?subject=app": "", "/why?subject=app": "", "/task/1-2": "",
	} {
		got := ""
		if found := marked.FindStringSubmatch(answers{}.view(t, path, false)); found != nil {
			got = found[1]
		}
		if got != want {
			t.Errorf("%s marks %q, not %q", path, got, want)
		}
	}
}

func TestViewOfNoGlobalValuesLeadsToThoseOfModules(t *testing.T) {
	t.Parallel()
	view := newFixture(t, false).get("/values")
	inOrder(t, view, "There are no global values. Values of modules: ", `<a href="/values/good">good</a>, <a href="/values/bad">bad</a>`)
}
